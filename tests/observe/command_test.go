package observe

import (
	"slices"
	"strings"
	"testing"

	"tidemill/tests/internal/wire"
)

// missingSubcommands belong to what is not there: users of one's own, modules.
var missingSubcommands = []string{
	"module|load", "module|loadex", "module|unload",
}

// sorted renders the items of a reply in an order of their own: Valkey's sets have none.
func sorted(reply wire.Reply) string {
	var items []string
	for _, item := range reply.Items {
		items = append(items, item.String())
	}
	slices.Sort(items)
	return string(reply.Kind) + strings.Join(items, " ")
}

// keySpecs renders specifications of keys without their notes, which are prose.
func keySpecs(reply wire.Reply) string {
	var specs []string
	for _, spec := range reply.Items {
		fields := spec.Items
		if len(fields) > 1 && string(fields[0].Text) == "notes" {
			fields = fields[2:]
		}
		specs = append(specs, wire.Reply{Kind: spec.Kind, Items: fields}.String())
	}
	return string(reply.Kind) + strings.Join(specs, "\n")
}

func requireSameCommand(t *testing.T, want, got wire.Reply) {
	t.Helper()
	if len(want.Items) != 10 || len(got.Items) != 10 {
		t.Fatalf("valkey: %s\nsubject: %s", want, got)
	}
	name := string(want.Items[0].Text)
	for index, part := range []struct {
		name   string
		render func(wire.Reply) string
	}{
		{"name", wire.Reply.String}, {"arity", wire.Reply.String}, {"flags", sorted},
		{"first key", wire.Reply.String}, {"last key", wire.Reply.String},
		{"step", wire.Reply.String},
		{"categories", sorted}, {"tips", sorted}, {"keys", keySpecs},
	} {
		if want, got := part.render(want.Items[index]), part.render(got.Items[index]); want != got {
			t.Errorf("%s: %s\n  valkey:  %s\n  subject: %s", name, part.name, want, got)
		}
	}
	subcommands := map[string]wire.Reply{}
	for _, sub := range got.Items[9].Items {
		subcommands[string(sub.Items[0].Text)] = sub
	}
	for _, sub := range want.Items[9].Items {
		name := string(sub.Items[0].Text)
		if slices.Contains(missingSubcommands, name) {
			continue
		}
		found, isThere := subcommands[name]
		if !isThere {
			t.Errorf("%s is missing", name)
			continue
		}
		requireSameCommand(t, sub, found)
		delete(subcommands, name)
	}
	for name := range subcommands {
		t.Errorf("%s is no subcommand of Valkey's", name)
	}
}

// isOwn tells whether a command is Redis's, which Valkey does not have.
func isOwn(name string) bool {
	container, _, _ := strings.Cut(name, "|")
	return container == "hotkeys"
}

func TestCommandInfo_IsValkeys(t *testing.T) {
	valkey, subject := both(t)
	for _, protocol := range []string{"2", "3"} {
		do(t, valkey, "HELLO", protocol)
		do(t, subject, "HELLO", protocol)
		names := do(t, subject, "COMMAND", "LIST").Items
		if len(names) < 100 {
			t.Fatalf("only %d commands", len(names))
		}
		for _, name := range names {
			text := string(name.Text)
			if isOwn(text) {
				continue
			}
			want, got := do(t, valkey, "COMMAND", "INFO", text),
				do(t, subject, "COMMAND", "INFO", text)
			if len(want.Items) != 1 || len(want.Items[0].Items) == 0 {
				t.Errorf("%s is no command of Valkey's", text)
				continue
			}
			requireSameCommand(t, want.Items[0], got.Items[0])
		}
	}
}

// pairs returns the values of a map, which RESP2 writes as an array, by their names.
func pairs(reply wire.Reply) map[string]wire.Reply {
	values := map[string]wire.Reply{}
	for index := 0; index+1 < len(reply.Items); index += 2 {
		values[string(reply.Items[index].Text)] = reply.Items[index+1]
	}
	return values
}

// versions renders the versions of a history without its sentences, which are prose.
func versions(history wire.Reply) string {
	var found []string
	for _, change := range history.Items {
		found = append(found, string(change.Items[0].Text))
	}
	return strings.Join(found, " ")
}

// requireSameDocs compares what is documented of a command or an argument: everything except prose,
// of which it compares whether there is any.
func requireSameDocs(t *testing.T, path string, want, got wire.Reply) {
	t.Helper()
	theirs, ours := pairs(want), pairs(got)
	for field := range ours {
		if _, isThere := theirs[field]; !isThere {
			t.Errorf("%s: Valkey documents no %s", path, field)
		}
	}
	for field, want := range theirs {
		got, isThere := ours[field]
		if !isThere {
			t.Errorf("%s: no %s, Valkey's is %s", path, field, want)
			continue
		}
		switch field {
		case "summary", "complexity", "replaced_by":
		case "history":
			if want, got := versions(want), versions(got); want != got {
				t.Errorf("%s: history of %s, Valkey's of %s", path, got, want)
			}
		case "arguments":
			requireSameArguments(t, path, want.Items, got.Items)
		case "subcommands":
			own := pairs(got)
			for name, want := range pairs(want) {
				if !slices.Contains(missingSubcommands, name) {
					requireSameDocs(t, name, want, own[name])
				}
			}
		case "flags", "doc_flags":
			if want, got := sorted(want), sorted(got); want != got {
				t.Errorf("%s: %s are %s, Valkey's %s", path, field, got, want)
			}
		default:
			if want, got := want.String(), got.String(); want != got {
				t.Errorf("%s: %s is %s, Valkey's %s", path, field, got, want)
			}
		}
	}
}

func requireSameArguments(t *testing.T, path string, want, got []wire.Reply) {
	t.Helper()
	if len(want) != len(got) {
		t.Errorf("%s: %d arguments, %d in Valkey", path, len(got), len(want))
		return
	}
	for index := range want {
		name := string(pairs(want[index])["name"].Text)
		requireSameDocs(t, path+" "+name, want[index], got[index])
	}
}

func TestCommandDocs_AreValkeys(t *testing.T) {
	valkey, subject := both(t)
	theirs := pairs(do(t, valkey, "COMMAND", "DOCS"))
	ours := pairs(do(t, subject, "COMMAND", "DOCS"))
	if len(ours) < 100 {
		t.Fatalf("only %d commands", len(ours))
	}
	for name, got := range ours {
		if !isOwn(name) {
			requireSameDocs(t, name, theirs[name], got)
		}
	}
}

func TestCommandInfo_OfWhatIsNoCommandIsNull(t *testing.T) {
	requireEqual(t, `
COMMAND INFO nothing get|x
COMMAND DOCS nothing
COMMAND GETKEYS nothing
COMMAND LIST FILTERBY PATTERN nothing
`)
}

// TestCommandList_NamesAreThoseOfValkey, of the commands that both have: containers and their
// subcommands, by every filter.
func TestCommandList_NamesAreThoseOfValkey(t *testing.T) {
	valkey, subject := both(t)
	list := func(conn *wire.Conn, filter string) map[string]bool {
		found := map[string]bool{}
		for _, name := range do(t, conn, words("COMMAND LIST "+filter)...).Items {
			found[string(name.Text)] = true
		}
		return found
	}
	all := list(subject, "")
	if !all["client"] || !all["client|list"] {
		t.Error("COMMAND LIST leaves out a container or its subcommands")
	}
	filters := []string{"FILTERBY PATTERN *", "FILTERBY PATTERN config*", "FILTERBY PATTERN config",
		"FILTERBY MODULE none"}
	for _, category := range do(t, subject, "COMMAND", "INFO", "client").Items[0].Items[6].Items {
		filters = append(filters, "FILTERBY ACLCAT "+strings.TrimPrefix(string(category.Text), "@"))
	}
	for _, filter := range append(filters, "FILTERBY ACLCAT connection",
		"FILTERBY ACLCAT dangerous") {
		theirs, ours := list(valkey, filter), list(subject, filter)
		for name := range all {
			if theirs[name] != ours[name] && !isOwn(name) {
				t.Errorf("%s: %s is in Valkey's list: %v, in ours: %v", filter, name, theirs[name],
					ours[name])
			}
		}
	}
}

// keyForms are arguments that name keys in one command or another.
var keyForms = strings.Split(strings.TrimSpace(`
k
k k
k 1
1 k
2 k1 k2
0
0 k
a b c
a 2 b c
a 0 b
s 1 k arg
1 2 k1 k2 LEFT
STREAMS a b 0 0
COUNT 1 STREAMS a 0
GROUP g c STREAMS a >
GROUP g c COUNT 1 NOACK STREAMS a b > >
a BY nosort GET y STORE b STORE c
a 1 2 3 km STORE d
a m 3 km STOREDIST d
h 1 k 0 1
h 1 k 0 1 COPY AUTH KEYS
h 1 k 0 1 KEYS a b
h 1 _ 0 1
h 1 _ 0 1 KEYS
h 1 _ 0 1 KEYS a b
h 1 _ 0 1 AUTH2 KEYS p KEYS b
k v GET
k GET u8 0
k SET u8 0 1
`), "\n")

// TestCommandGetKeys_IsValkeys: all commands, each with arguments of all of them.
func TestCommandGetKeys_IsValkeys(t *testing.T) {
	valkey, subject := both(t)
	for _, name := range do(t, subject, "COMMAND", "LIST").Items {
		text := string(name.Text)
		if isOwn(text) {
			continue
		}
		for _, form := range append(keyForms, "") {
			for _, question := range []string{"GETKEYS", "GETKEYSANDFLAGS"} {
				line := words("COMMAND " + question + " " + strings.Replace(text, "|", " ", 1))
				line = append(line, words(form)...)
				want, got := do(t, valkey, line...).String(), do(t, subject, line...).String()
				if want != got {
					t.Errorf("%q\n  valkey:  %s\n  subject: %s", line, want, got)
				}
			}
		}
	}
}
