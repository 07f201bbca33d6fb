package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	tidemill "go.tidemill.dev/client"
)

// command is a line of a list: the parts of COMMAND and COMMAND DOCS that the client needs.
type command struct {
	Name      string     `json:"name"` // lower case; "client|list" for subcommands
	Group     string     `json:"group"`
	Since     string     `json:"since"`
	Summary   string     `json:"summary"`
	Arity     int64      `json:"arity"`
	Flags     []string   `json:"flags,omitempty"`
	Tips      []string   `json:"tips,omitempty"`
	Range     [3]int64   `json:"range"` // first key, last key, step
	Keys      []keyRule  `json:"keys,omitempty"`
	Arguments []argument `json:"arguments,omitempty"`

	hasSub bool
}

// keyRule is a key specification: where it begins, and where the count of keys is, if one is.
type keyRule struct {
	Index   int64  `json:"index,omitempty"`
	Keyword string `json:"keyword,omitempty"`
	From    int64  `json:"from,omitempty"` // where the search for Keyword begins
	Unknown bool   `json:"unknown,omitempty"`
	Count   *int64 `json:"count,omitempty"` // from Index on
}

type argument struct {
	Name      string     `json:"name"`
	Type      string     `json:"type"`
	Token     string     `json:"token,omitempty"`
	Flags     []string   `json:"flags,omitempty"`
	Arguments []argument `json:"arguments,omitempty"`
}

// row is the name in the table: upper case, "CLIENT LIST" for subcommands.
func (c *command) row() string {
	return strings.ToUpper(strings.ReplaceAll(c.Name, "|", " "))
}

func (a argument) optional() bool { return slices.Contains(a.Flags, "optional") }
func (a argument) multiple() bool { return slices.Contains(a.Flags, "multiple") }

// recordedFrom is the first line of the recording.
type recordedFrom struct {
	Valkey string `json:"valkey"`
}

// readList reads a list, and the version that it was recorded from if it is a recording.
func readList(path string) (version string, commands []*command) {
	source, err := os.ReadFile(path)
	check(err)
	for line := range bytes.Lines(source) {
		if bytes.HasPrefix(line, []byte(`{"valkey":`)) {
			var from recordedFrom
			check(json.Unmarshal(line, &from))
			version = from.Valkey
			continue
		}
		c := &command{}
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		check(decoder.Decode(c))
		commands = append(commands, c)
	}
	return version, commands
}

func writeList(path, version string, commands []*command) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	check(encoder.Encode(recordedFrom{Valkey: version}))
	slices.SortFunc(commands, func(a, b *command) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range commands {
		check(encoder.Encode(c))
	}
	check(os.WriteFile(path, out.Bytes(), 0o644))
}

// ask reads all commands of a running server.
func ask(address string) (version string, commands []*command) {
	client, err := tidemill.New(tidemill.Options{Address: address})
	check(err)
	ctx := context.Background()
	rows, err := client.Do(ctx, "COMMAND").Array()
	check(err)
	for _, row := range rows {
		commands = append(commands, readRow(row)...)
	}
	docs, err := client.Do(ctx, "COMMAND", "DOCS").Pairs()
	check(err)
	for name, doc := range docs {
		readDocs(name, doc, commands)
	}
	info, err := client.Do(ctx, "INFO", "server").Text()
	check(err)
	_, version, _ = strings.Cut(info, "valkey_version:")
	version, _, _ = strings.Cut(version, "\r")
	check(client.Close())
	return version, commands
}

// readRow reads a row of COMMAND: the command and its subcommands.
func readRow(row tidemill.Reply) []*command {
	fields, err := row.Array()
	check(err)
	if len(fields) < 10 {
		check(fmt.Errorf("a row of COMMAND has %d fields", len(fields)))
	}
	c := &command{}
	c.Name, _ = fields[0].Text()
	c.Arity, _ = fields[1].Int64()
	c.Flags, _ = fields[2].Strings()
	for i := range c.Range {
		c.Range[i], _ = fields[3+i].Int64()
	}
	c.Tips, _ = fields[7].Strings()
	specs, _ := fields[8].Array()
	for _, spec := range specs {
		c.Keys = append(c.Keys, readKeyRule(spec))
	}
	commands := []*command{c}
	subs, _ := fields[9].Array()
	for _, sub := range subs {
		commands = append(commands, readRow(sub)...)
	}
	return commands
}

func readKeyRule(reply tidemill.Reply) (rule keyRule) {
	spec, err := reply.Map()
	check(err)
	search, err := spec["begin_search"].Map()
	check(err)
	begin, _ := search["spec"].Map()
	switch kind, _ := search["type"].Text(); kind {
	case "index":
		rule.Index, _ = begin["index"].Int64()
	case "keyword":
		rule.Keyword, _ = begin["keyword"].Text()
		rule.From, _ = begin["startfrom"].Int64()
	default:
		rule.Unknown = true
	}
	find, err := spec["find_keys"].Map()
	check(err)
	if kind, _ := find["type"].Text(); kind == "keynum" {
		fields, _ := find["spec"].Map()
		at, _ := fields["keynumidx"].Int64()
		rule.Count = &at
	}
	return rule
}

func readDocs(name string, doc tidemill.Reply, commands []*command) {
	fields, err := doc.Map()
	check(err)
	c := find(commands, name)
	c.Group, _ = fields["group"].Text()
	c.Summary, _ = fields["summary"].Text()
	c.Since, _ = fields["since"].Text()
	c.Arguments = readArguments(fields["arguments"])
	if subs, err := fields["subcommands"].Pairs(); err == nil {
		for sub, subDoc := range subs {
			readDocs(sub, subDoc, commands)
		}
	}
}

func readArguments(list tidemill.Reply) (args []argument) {
	items, _ := list.Array()
	for _, item := range items {
		fields, err := item.Map()
		check(err)
		var a argument
		a.Name, _ = fields["name"].Text()
		a.Type, _ = fields["type"].Text()
		a.Token, _ = fields["token"].Text()
		a.Flags, _ = fields["flags"].Strings()
		a.Arguments = readArguments(fields["arguments"])
		args = append(args, a)
	}
	return args
}
