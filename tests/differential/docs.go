// Package differential runs random command sequences against the server under test and against
// Valkey, and demands the same replies.
//
// The commands come from Valkey's own COMMAND DOCS, so that no option is forgotten: a generator
// walks the argument trees and fills in values that fit (values.go), spoils some on purpose
// (spoil.go), and counts every option token it emitted. Replies are compared byte for byte, except
// where the order or the value is nobody's promise (compare.go) or where Tidemill differs by intent
// (differences.go). A failing sequence is reduced to the commands that it needs (minimize.go).
// Redis 7.0 is asked for its opinion in the report.
//
// It is not a test of concurrency (package linearizability is) and not of commands whose reply is
// chance.
package differential

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"tidemill/tests/internal/wire"
)

// Argument is one node of a command's argument tree.
type Argument struct {
	Name      string
	Type      string
	Token     string
	Flags     []string
	Arguments []Argument
}

func (a *Argument) has(flag string) bool { return slices.Contains(a.Flags, flag) }

// Command is a command, or a subcommand with its container's name before it.
type Command struct {
	// Name is lower case, `client|kill` for a subcommand.
	Name      string
	Words     []string
	Group     string
	Arguments []Argument
}

// families are the groups of COMMAND DOCS under test.
var families = []string{"connection", "string", "bitmap", "generic", "list", "hash", "set",
	"sorted-set", "stream", "geo", "hyperloglog", "transactions", "scripting"}

// serverCommands are those of group server: what belongs to the keyspace, and what has options.
// Those of SHUTDOWN are read by process.TestShutdown.
var serverCommands = []string{
	"flushdb", "flushall", "dbsize", "swapdb", "lolwut", "command|list", "memory|usage",
	"config|get",
	"role", "lastsave", "acl|whoami", "acl|users",
}

// Commands reads the argument trees of all commands under test from a running Valkey, sorted by
// name.
func Commands(conn *wire.Conn) ([]Command, error) {
	if _, err := conn.Do("HELLO", "3"); err != nil {
		return nil, err
	}
	docs, err := conn.Do("COMMAND", "DOCS")
	if err != nil {
		return nil, err
	}
	if docs.Kind != '%' {
		return nil, fmt.Errorf("COMMAND DOCS answered %.200s", docs)
	}
	var commands []Command
	eachPair(docs, func(name string, doc wire.Reply) {
		commands = appendCommand(commands, name, doc)
	})
	sort.Slice(commands, func(i, j int) bool { return commands[i].Name < commands[j].Name })
	return commands, nil
}

func appendCommand(commands []Command, name string, doc wire.Reply) []Command {
	group := string(field(doc, "group").Text)
	container := strings.SplitN(name, "|", 2)[0]
	if subcommands := field(doc, "subcommands"); len(subcommands.Items) > 0 {
		eachPair(subcommands, func(name string, doc wire.Reply) {
			commands = appendCommand(commands, name, doc)
		})
		return commands
	}
	if !slices.Contains(families, group) && !slices.Contains(serverCommands, name) {
		return commands
	}
	if excluded[name] != "" || excluded[container] != "" {
		return commands
	}
	return append(commands, Command{
		Name:      name,
		Words:     strings.Split(strings.ToUpper(name), "|"),
		Group:     group,
		Arguments: argumentsOf(field(doc, "arguments")),
	})
}

func argumentsOf(list wire.Reply) []Argument {
	var arguments []Argument
	for _, item := range list.Items {
		argument := Argument{
			Name:      string(field(item, "name").Text),
			Type:      string(field(item, "type").Text),
			Token:     string(field(item, "token").Text),
			Arguments: argumentsOf(field(item, "arguments")),
		}
		for _, flag := range field(item, "flags").Items {
			argument.Flags = append(argument.Flags, string(flag.Text))
		}
		arguments = append(arguments, argument)
	}
	return arguments
}

func eachPair(reply wire.Reply, visit func(key string, value wire.Reply)) {
	for index := 0; index+1 < len(reply.Items); index += 2 {
		visit(string(reply.Items[index].Text), reply.Items[index+1])
	}
}

func field(reply wire.Reply, name string) (found wire.Reply) {
	eachPair(reply, func(key string, value wire.Reply) {
		if key == name {
			found = value
		}
	})
	return found
}

// tokens lists every option token of the command as `command TOKEN`, the unit in which coverage is
// counted.
func (c *Command) tokens() []string {
	var names []string
	var walk func(arguments []Argument)
	walk = func(arguments []Argument) {
		for index := range arguments {
			if arguments[index].Token != "" {
				names = append(names, c.Name+" "+arguments[index].Token)
			}
			walk(arguments[index].Arguments)
		}
	}
	walk(c.Arguments)
	return names
}
