package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// methods writes one method per command that is not administrative and not a mere container.
func methods(commands []*command) string {
	var out bytes.Buffer
	out.WriteString("import \"context\"\n\n")
	for _, c := range commands {
		administrative := slices.Contains(c.Flags, "admin")
		if administrative || c.hasSub {
			continue
		}
		c.method(&out)
	}
	return out.String()
}

// parameter is one parameter of a method and how it is encoded.
type parameter struct {
	name, kind string // kind: string, int64, float64, any, []string, ...string, ...any
	counted    bool   // its length is sent before it
	token      string // sent before it
}

func (c *command) method(out *bytes.Buffer) {
	params := c.parameters()
	var signature, fixed []string
	encodedName, words := "", strings.Fields(c.row())
	for _, word := range words {
		encodedName += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	count := len(words)
	for _, p := range params {
		signature = append(signature, p.name+" "+p.kind)
		if strings.Contains(p.kind, "[]") || strings.HasPrefix(p.kind, "...") {
			fixed = append(fixed, "len("+p.name+")")
			if p.counted {
				count++
			}
		} else if p.kind != "token" {
			count++
		}
		if p.token != "" {
			count++
		}
	}
	signature = slices.DeleteFunc(signature, func(s string) bool {
		return strings.HasSuffix(s, " token")
	})
	total := strings.Join(append([]string{fmt.Sprint(count)}, fixed...), " + ")
	fmt.Fprintf(out, "// %s runs %s: %s\n//\n// Since %s.\n", methodName(c.row()), c.row(),
		strings.TrimSpace(c.Summary), c.Since)
	fmt.Fprintf(out, "func (c Commands) %s(%s) Reply {\n", methodName(c.row()),
		strings.Join(append([]string{"ctx context.Context"}, signature...), ", "))
	fmt.Fprintf(out, "r := begin(%q, %s)\n", encodedName, total)
	for _, p := range params {
		p.encode(out)
	}
	fmt.Fprintf(out, "return c.runner.run(ctx, r, commandTable[%q])\n}\n\n", c.row())
}

func (p parameter) encode(out *bytes.Buffer) {
	if p.token != "" {
		fmt.Fprintf(out, "r.wire = appendString(r.wire, %q)\n", p.token)
	}
	if p.counted {
		fmt.Fprintf(out, "r.wire = appendInt(r.wire, int64(len(%s)))\n", p.name)
	}
	switch p.kind {
	case "string":
		fmt.Fprintf(out, "r.wire = appendString(r.wire, %s)\n", p.name)
	case "int64":
		fmt.Fprintf(out, "r.wire = appendInt(r.wire, %s)\n", p.name)
	case "float64":
		fmt.Fprintf(out, "r.wire = appendFloat(r.wire, %s, 64)\n", p.name)
	case "any":
		fmt.Fprintf(out, "if !r.append(%s) {\nreturn r.refuse()\n}\n", p.name)
	case "[]string", "...string":
		fmt.Fprintf(out, "for _, item := range %s {\nr.wire = appendString(r.wire, item)\n}\n",
			p.name)
	case "...any", "[]any":
		fmt.Fprintf(out, "if !r.appendAny(%s) {\nreturn r.refuse()\n}\n", p.name)
	}
}

// parameters are the required leading arguments; from the first optional one on everything is
// passed as the server's documentation writes it.
func (c *command) parameters() (params []parameter) {
	used := map[string]bool{"ctx": true, "c": true, "r": true, "ok": true, "item": true}
	counted := false
	for i, a := range c.Arguments {
		last := i == len(c.Arguments)-1
		simple := map[string]string{"key": "string", "string": "any", "integer": "int64",
			"double":    "float64",
			"unix-time": "int64", "pattern": "string"}[a.Type]
		if bound := a.Type == "double" && (a.Name == "min" || a.Name == "max"); bound ||
			a.Name == "cursor" || a.Name == "increment" {
			// "(1", "-inf"; cursors are unsigned; ZINCRBY's increment is a float in truth
			simple = "any"
		}
		if a.optional() || (simple == "" && a.Type != "pure-token") ||
			(a.multiple() && !last && a.Type != "key" && !counted) {
			return append(params, parameter{name: unique("args", used), kind: "...any"})
		}
		if a.Type == "pure-token" {
			params = append(params, parameter{kind: "token", token: a.Token})
			continue
		}
		if a.Name == "numkeys" || a.Name == "numfields" {
			counted = true
			continue
		}
		p := parameter{name: unique(a.Name, used), kind: simple, token: a.Token}
		if a.multiple() || counted {
			p.counted, counted = counted, false
			p.name = unique(plural(a.Name), used)
			element := "string"
			if a.Type == "string" {
				element = "any"
			}
			p.kind = "[]" + element
			if last {
				p.kind = "..." + element
			}
		}
		params = append(params, p)
	}
	return params
}

func plural(name string) string {
	if strings.HasSuffix(name, "s") {
		return name
	}
	return name + "s"
}

func unique(name string, used map[string]bool) string {
	var words []string
	for _, word := range strings.FieldsFunc(name, func(r rune) bool {
		return r == '-' || r == '_' || r == ' '
	}) {
		words = append(words, strings.ToUpper(word[:1])+strings.ToLower(word[1:]))
	}
	name = strings.Join(words, "")
	name = strings.ToLower(name[:1]) + name[1:]
	switch name {
	case "type", "func", "range", "len", "string", "map", "var", "min", "max":
		name += "Value"
	}
	for used[name] {
		name += "2"
	}
	used[name] = true
	return name
}

// vocabulary splits command names into words, so that methods can be written in camel case.
var vocabulary = strings.Fields(`
ADD ALL AND APPEND ASKING AT AUTH AUTO BIT BY CACHING CAPA CARD CHANNELS CLAIM CLIENT CLUSTER
COMMAND CONSUMER COPY COUNT CREATE DBSIZE DECR DEL DELETE DIFF DISCARD DIST DOCS DUMP ECHO
ENCODING EVAL EX EXEC EXISTS EXPIRE FCALL FIELD FLAGS FLOAT FLUSH FREQ FULL FUNCTION GENPASS GEO
GET GETKEYS GETNAME GETREDIR GRAPH GROUP GROUPS HASH HELLO HELP HISTOGRAM HISTORY ID IDLETIME IF
EQ INCR INFO INSERT INTER IS JUSTID KEY KEYS KEYSLOT KILL LATENCY LATEST LCS LEN LEX LIST LOAD
LOLWUT MAX MEMBER MEMBERS MEMORY MERGE MIN MIGRATE MODULE MOVE MULTI MY NODES NO NUMPAT NUMSUB NX
OBJECT OP PERSIST PENDING PF PING POP POS PUBLISH PUBSUB PUSH QUIT RADIUS RAND RANDOM RANGE RANK
READ READONLY READWRITE REFCOUNT REM RENAME REPLICAS REPLY RESET RESTORE REV RO ROLE SCAN SCORE
SCRIPT SEARCH SELECT SET SETINFO SETNAME SHA SHARDS SHARD SHOW SIZE SLOTS SLOT SORT STATS STORE
STR STREAM STREAMS SUB SUBSCRIBE SUBSTR SWAPDB TIME TOUCH TRACKING TRACKINGINFO TRIM TTL TYPE
UNBLOCK UNION UNLINK UNSUBSCRIBE UNWATCH USAGE VALS WAIT WATCH WHOAMI X Z H S L P B R M AOF ACK XX
DESTROY SETID LINKS FIELDS DB GROUPED NUMKEYS PX CONSUMERS
`)

// methodName renders "ZRANGEBYSCORE" as ZRangeByScore and "CLIENT NO-EVICT" as ClientNoEvict.
func methodName(command string) string {
	var name strings.Builder
	for _, part := range strings.FieldsFunc(command, func(r rune) bool {
		return r == ' ' || r == '-' || r == '_'
	}) {
		for _, word := range split(part) {
			name.WriteString(word[:1] + strings.ToLower(word[1:]))
		}
	}
	return name.String()
}

// split finds the division into the fewest words, single letters counting double.
func split(text string) []string {
	best := make([][]string, len(text)+1)
	cost := make([]int, len(text)+1)
	for end := 1; end <= len(text); end++ {
		cost[end] = 1 << 20
		for _, word := range vocabulary {
			start := end - len(word)
			if start < 0 || text[start:end] != word || cost[start] >= 1<<20 {
				continue
			}
			price := cost[start] + 3
			if len(word) == 1 {
				price = cost[start] + 4
			}
			if price < cost[end] {
				cost[end] = price
				best[end] = append(slices.Clone(best[start]), word)
			}
		}
	}
	if best[len(text)] == nil {
		return []string{text}
	}
	return best[len(text)]
}
