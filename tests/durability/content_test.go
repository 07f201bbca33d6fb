package durability

import (
	"strings"
	"testing"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const library = "#!lua name=mylib\nserver.register_function('answer', function() return 'made' end)"

// between saves what setUp made by one server and lets another one load and check it, for all pairs
// of kinds.
func between(
	t *testing.T, directives []string, setUp, check func(t *testing.T, conn *wire.Conn),
) {
	t.Helper()
	directives = append([]string{"--save", "3600 1"}, directives...)
	kinds := []instance.Kind{instance.Subject, instance.Valkey}
	for _, saver := range kinds {
		for _, loader := range kinds {
			t.Run(string(saver)+" to "+string(loader), func(t *testing.T) {
				directory := t.TempDir()
				for _, part := range []struct {
					kind instance.Kind
					work func(t *testing.T, conn *wire.Conn)
				}{{saver, setUp}, {loader, check}} {
					server, err := instance.Launch(part.kind, directory, directives...)
					if err != nil {
						t.Fatal(err)
					}
					part.work(t, server.Dial(t))
					if err := server.Stop(); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// Libraries of functions are part of a snapshot, as Valkey writes and reads it.
func TestSnapshot_HasLibraries(t *testing.T) {
	between(t, nil, func(t *testing.T, conn *wire.Conn) {
		if reply := do(t, conn, "FUNCTION", "LOAD", library); string(reply.Text) != "mylib" {
			t.Fatalf("FUNCTION LOAD answered %s", reply.Text)
		}
	}, func(t *testing.T, conn *wire.Conn) {
		if reply := do(t, conn, "FCALL", "answer", "0"); string(reply.Text) != "made" {
			t.Errorf("FCALL answered %s", reply.Text)
		}
	})
}

// A snapshot beside a change of the libraries has those of its cut, and DEBUG RELOAD brings them
// back in the place of later ones.
func TestSnapshot_HasLibrariesOfItsCut(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--enable-debug-command", "yes")
	conn := server.Dial(t)
	do(t, conn, "SET", "key", "value")
	do(t, conn, "FUNCTION", "LOAD", library)
	do(t, conn, "CONFIG", "SET", "rdb-key-save-delay", "200000")
	do(t, conn, "BGSAVE")
	do(t, conn, "FUNCTION", "DELETE", "mylib")
	do(t, conn, "FUNCTION", "LOAD", strings.ReplaceAll(library, "my", "your"))
	for fieldsOf(t, conn)["rdb_bgsave_in_progress"] == "1" {
	}
	do(t, conn, "CONFIG", "SET", "rdb-key-save-delay", "0")
	if reply := do(t, conn, "DEBUG", "RELOAD", "NOSAVE"); string(reply.Text) != "OK" {
		t.Fatalf("DEBUG RELOAD answered %s", reply.Text)
	}
	listed := do(t, conn, "FUNCTION", "LIST")
	if len(listed.Items) != 1 || string(listed.Items[0].Items[1].Text) != "mylib" {
		t.Errorf("FUNCTION LIST answered %v", listed)
	}
}

// A snapshot says how keys were used, under the policies that look at it.
func TestSnapshot_SaysHowKeysWereUsed(t *testing.T) {
	for policy, use := range map[string]struct {
		attribute, question string
		least, most         int64
	}{
		"allkeys-lfu":  {"FREQ", "FREQ", 98, 100},
		"volatile-lru": {"IDLETIME", "IDLETIME", 100, 150},
		"noeviction":   {"IDLETIME", "IDLETIME", 0, 50},
	} {
		t.Run(policy, func(t *testing.T) {
			directives := []string{"--maxmemory-policy", policy}
			between(t, directives, func(t *testing.T, conn *wire.Conn) {
				do(t, conn, "SET", "key", "value")
				payload := do(t, conn, "DUMP", "key").Text
				do(t, conn, "RESTORE", "other", "0", string(payload), use.attribute, "100")
			}, func(t *testing.T, conn *wire.Conn) {
				found := do(t, conn, "OBJECT", use.question, "other").Int()
				if found < use.least || found > use.most {
					t.Errorf("OBJECT %s answered %d", use.question, found)
				}
			})
		})
	}
}
