package goredis

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// wire encodes a command line that has no quotes.
func wire(line string) []byte { return encode(strings.Fields(line)...) }

func splitAll(t *testing.T, data []byte, pieceBytes int) (found []command) {
	t.Helper()
	var s splitter
	var out []byte
	for len(data) > 0 {
		n := min(pieceBytes, len(data))
		out = append(out, data[:n]...)
		data = data[n:]
		for {
			next, ok, malformed := s.next(out)
			if malformed {
				t.Fatalf("malformed at %d of %q", s.at, out)
			}
			if !ok {
				break
			}
			found = append(found, next)
		}
	}
	return found
}

func TestSplitter_FindsTheSameCommandsInAnyPieces(t *testing.T) {
	var data []byte
	var want []command
	for line, kind := range map[string]kind{
		"set k v": kindPlain, "GET k": kindPlain, "blpop k 0": kindBlocks, "multi": kindMulti,
		"exec":                      kindExec,
		"xread block 0 streams s 0": kindBlocks, "xread streams block 0": kindBlocks,
		"xread streams s 0": kindPlain,
		"get block":         kindPlain, "subscribe c": kindThrough, "client id": kindThrough,
		"client list":        kindPlain,
		"client tracking on": kindThrough, "client setname n": kindSession, "hello 3": kindSession,
		"select 1": kindSession,
		"asking":   kindAsking, "watch k": kindWatch, "unwatch": kindUnwatch, "discard": kindExec,
		"reset": kindThrough,
		"quit":  kindThrough, "unknown.command k": kindPlain, "client": kindPlain,
		"CLIENT": kindPlain, "wait 1 0": kindBlocks,
		"script kill": kindBlocks, "function kill": kindBlocks, "script exists x": kindPlain,
		"replconf ack 1": kindThrough, "client reply off": kindThrough,
		"script debug yes": kindThrough,
	} {
		data = append(data, wire(line)...)
		want = append(want, command{len(data), kind})
	}
	for pieceBytes := 1; pieceBytes < 40; pieceBytes++ {
		if found := splitAll(t, data, pieceBytes); !reflect.DeepEqual(found, want) {
			t.Fatalf("pieces of %d bytes:\n%v\nwanted\n%v\nof %q", pieceBytes, found, want, data)
		}
	}
}

func TestSplitter_RefusesWhatIsNoCommand(t *testing.T) {
	for _, data := range []string{"PING\r\n", "*0\r\n", "*1\r\n+x\r\n", "*-1\r\n", "*1\r\n$-1\r\n",
		"*99999999999999999999\r\n", "*1\r\n$99999999999999999\r\n", "*x\r\n", "*1\n", "*\r\n",
		"*1000000000000000000000000"} {
		var s splitter
		for {
			_, ok, malformed := s.next([]byte(data))
			if malformed {
				break
			}
			if !ok {
				t.Errorf("%q was not refused", data)
				break
			}
		}
	}
}

func FuzzSplitter(f *testing.F) {
	f.Add([]byte("*2\r\n$3\r\nget\r\n$1\r\nk\r\n*1\r\n$5\r\nmulti\r\n"), uint8(3))
	f.Add([]byte("*1\r\n$99999999\r\n"), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, pieceBytes uint8) {
		var whole splitter
		var want []command
		bad := false
		for {
			next, ok, malformed := whole.next(data)
			if bad = malformed; !ok {
				break
			}
			want = append(want, next)
			if args := arguments(data[whole.start:next.end]); len(args) != whole.argIndex {
				t.Fatalf("%d arguments of %q, wanted %d", len(args), data[whole.start:next.end],
					whole.argIndex)
			}
		}
		if !bad {
			found := splitAll(t, data, max(int(pieceBytes), 1))
			if !reflect.DeepEqual(found, want) {
				t.Fatalf("%v, wanted %v", found, want)
			}
		}
	})
}

func TestRun_SharesOnlyWhatLeavesNothingBehind(t *testing.T) {
	for _, c := range []struct {
		commands  []kind
		multi     bool
		count     int
		shareable bool
	}{
		{[]kind{kindPlain, kindPlain}, false, 2, true},
		{[]kind{kindMulti, kindPlain, kindExec}, false, 3, true},
		// in a transaction nothing blocks
		{[]kind{kindMulti, kindBlocks, kindExec}, false, 3, true},
		{[]kind{kindMulti, kindPlain}, false, 2, false},
		{[]kind{kindMulti, kindSession, kindExec}, false, 3, false},
		{[]kind{kindMulti, kindWatch, kindExec}, false, 3, false},
		{[]kind{kindPlain}, true, 1, false},
		{[]kind{kindExec, kindPlain}, true, 2, false},
		{[]kind{kindAsking, kindPlain}, false, 2, true},
		{[]kind{kindPlain, kindAsking}, false, 2, false},
		{[]kind{kindPlain, kindBlocks}, false, 2, false},
		{[]kind{kindWatch}, false, 1, false},
		{[]kind{kindUnwatch}, false, 1, true},
		{[]kind{kindPlain, kindSession, kindPlain}, false, 1, true},
		{[]kind{kindPlain, kindThrough}, false, 1, true},
	} {
		var commands []command
		for _, kind := range c.commands {
			commands = append(commands, command{kind: kind})
		}
		if count, shareable := run(commands, c.multi); count != c.count ||
			shareable != c.shareable {
			t.Errorf("%v, multi %v: %d, %v", c.commands, c.multi, count, shareable)
		}
	}
}

func TestState_PrologueRepeatsWhatCounts(t *testing.T) {
	for _, c := range []struct{ given, want string }{
		{"", ""},
		{"hello 3", "HELLO 3"},
		{"hello 3 auth u p setname n", "HELLO 3 AUTH u p;CLIENT SETNAME n"},
		{"hello 3 auth u old;auth u new", "HELLO 3 AUTH u new"},
		{"auth p", "AUTH p"},
		{"auth p;hello 3", "HELLO 3 AUTH default p"},
		{"auth u p", "AUTH u p"},
		{"hello 3;select 1;select 2", "HELLO 3;select 2"},
		{"hello", ""},
		{"client setname b;readonly;select 1;client setname a",
			"readonly;select 1;client setname a"},
		{"readonly;readwrite", "readwrite"},
		{"client setinfo lib-ver 1;client setinfo LIB-NAME x",
			"client setinfo LIB-NAME x;client setinfo lib-ver 1"},
		{"client no-evict on;client no-touch on;client no-evict off",
			"client no-evict off;client no-touch on"},
	} {
		var s state
		for line := range strings.SplitSeq(c.given, ";") {
			if line != "" {
				s = s.after(wire(line))
			}
		}
		var want []byte
		wantCount := 0
		for line := range strings.SplitSeq(c.want, ";") {
			if line != "" {
				want = append(want, wire(line)...)
				wantCount++
			}
		}
		commands, count := s.prologue()
		if !bytes.Equal(commands, want) || count != wantCount {
			t.Errorf("%q: %d, %q", c.given, count, commands)
		}
	}
}
