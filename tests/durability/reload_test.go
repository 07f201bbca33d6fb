package durability

import (
	"strings"
	"testing"

	"tidemill/tests/internal/instance"
)

const libraryPattern = "#!lua name=%\nserver.register_function('%', function() return '&' end)"

func libraryOf(name, answer string) string {
	return strings.NewReplacer("%", name, "&", answer).Replace(libraryPattern)
}

// DEBUG RELOAD with its options, as Valkey: NOFLUSH keeps keys and libraries, MERGE lets those of
// the file replace them.
func TestReload_KeepsAndMergesAsValkeyDoes(t *testing.T) {
	type outcome struct{ reply, same, own, fromFile, first, second string }
	run := func(kind instance.Kind, options ...string) outcome {
		server := instance.Start(t, kind, "--enable-debug-command", "yes")
		conn := server.Dial(t)
		do(t, conn, "SET", "same", "old")
		do(t, conn, "RPUSH", "file", "a", "b")
		do(t, conn, "FUNCTION", "LOAD", libraryOf("first", "old"))
		do(t, conn, "SAVE")
		do(t, conn, "DEL", "file")
		do(t, conn, "HSET", "own", "field", "value")
		do(t, conn, "DEL", "same")
		do(t, conn, "RPUSH", "same", "new")
		do(t, conn, "FUNCTION", "LOAD", "REPLACE", libraryOf("first", "new"))
		do(t, conn, "FUNCTION", "LOAD", libraryOf("second", "new"))
		reply := do(t, conn, append([]string{"DEBUG", "RELOAD"}, options...)...)
		text := func(words ...string) string { return do(t, conn, words...).String() }
		return outcome{
			reply: reply.String(), same: text("TYPE", "same"), own: text("HGETALL", "own"),
			fromFile: text("LRANGE", "file", "0", "-1"), first: text("FCALL", "first", "0"),
			second: text("FCALL", "second", "0"),
		}
	}
	for _, options := range [][]string{
		{"NOSAVE"}, {"NOSAVE", "NOFLUSH", "MERGE"}, {"merge"}, {"NOFLUSH", "merge"},
		{"NOSAVE", "MERGE"}, {"NOSAVE", "other"}, {},
	} {
		ours, theirs := run(instance.Subject, options...), run(instance.Valkey, options...)
		if ours != theirs {
			t.Errorf("%v:\nours   %v\nValkey %v", options, ours, theirs)
		}
	}
}

// Without MERGE a key that is kept and in the file too ends the reload with an error, where Valkey
// crashes; a client that watches a key which is replaced learns of it.
func TestReload_RefusesKeysTwiceAndTellsWatchers(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--enable-debug-command", "yes")
	conn := server.Dial(t)
	do(t, conn, "SET", "key", "of the file")
	do(t, conn, "SAVE")
	do(t, conn, "SET", "key", "kept")
	if word := firstWord(do(t, conn, "DEBUG", "RELOAD", "NOSAVE", "NOFLUSH")); word != "ERR" {
		t.Errorf("a key twice was answered %s", word)
	}
	if reply := do(t, conn, "GET", "key"); string(reply.Text) != "kept" {
		t.Errorf("behind the error the key has %s", reply)
	}
	do(t, conn, "WATCH", "key")
	other := server.Dial(t)
	for range 100 {
		reply := do(t, other, "DEBUG", "RELOAD", "NOSAVE", "NOFLUSH", "MERGE")
		if string(reply.Text) != "OK" {
			t.Fatalf("with MERGE: %s", reply)
		}
	}
	if reply := do(t, other, "GET", "key"); string(reply.Text) != "of the file" {
		t.Errorf("with MERGE the key has %s", reply)
	}
	do(t, conn, "MULTI")
	do(t, conn, "PING")
	if reply := do(t, conn, "EXEC"); reply.String() != "*nil" {
		t.Errorf("EXEC of a client that watches a replaced key answered %s", reply)
	}
	if size := do(t, other, "DBSIZE").Int(); size != 1 {
		t.Errorf("%d keys", size)
	}
}
