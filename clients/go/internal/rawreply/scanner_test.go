package rawreply

import (
	"strings"
	"testing"
)

var replies = []string{
	"+OK\r\n", "-ERR no\r\n", ":1\r\n", "$-1\r\n", "$0\r\n\r\n", "$5\r\na\r\nbc\r\n", "*-1\r\n",
	"*0\r\n",
	"*2\r\n$1\r\na\r\n*1\r\n:2\r\n", "%1\r\n+k\r\n~2\r\n:1\r\n,1.5\r\n", "_\r\n", "#t\r\n",
	"(123\r\n", "!3\r\nERR\r\n",
	"=7\r\ntxt:abc\r\n", "|1\r\n+ttl\r\n:3\r\n*1\r\n+x\r\n", "*1\r\n|1\r\n+a\r\n+b\r\n:1\r\n",
	">2\r\n+invalidate\r\n_\r\n",
}

// scan feeds data in pieces, offering again what was not taken, as a reader does.
func scan(t *testing.T, data string, pieceBytes int) (found []string) {
	t.Helper()
	var s Scanner
	var reply string
	held := ""
	for len(data) > 0 {
		n := min(pieceBytes, len(data))
		held, data = held+data[:n], data[n:]
		for {
			used, done, push, err := s.Next([]byte(held))
			if err != nil {
				t.Fatalf("%q: %v", held, err)
			}
			reply, held = reply+held[:used], held[used:]
			if !done {
				break
			}
			if push != strings.HasPrefix(reply, ">") {
				t.Errorf("%q: push is %v", reply, push)
			}
			found, reply = append(found, reply), ""
		}
	}
	if held+reply != "" {
		t.Errorf("left over: %q", reply+held)
	}
	return found
}

func TestScanner_FindsTheSameRepliesInAnyPieces(t *testing.T) {
	all := strings.Join(replies, "")
	for pieceBytes := 1; pieceBytes <= len(all); pieceBytes++ {
		found := scan(t, all, pieceBytes)
		if strings.Join(found, "|") != strings.Join(replies, "|") {
			t.Fatalf("pieces of %d bytes: %q", pieceBytes, found)
		}
	}
}

func TestScanner_RefusesWhatIsNoReply(t *testing.T) {
	for _, data := range []string{"\r\n", "OK\r\n", "+OK\n", "$x\r\n", "$-2\r\n", "*-5\r\n",
		"$9999999999\r\n", "$?\r\n", "*?\r\n", "%99999999999999999999\r\n",
		strings.Repeat("+", 70<<10)} {
		var s Scanner
		if _, _, _, err := s.Next([]byte(data)); err == nil {
			t.Errorf("%.20q was accepted", data)
		}
	}
}

func FuzzScanner(f *testing.F) {
	for _, reply := range replies {
		f.Add([]byte(reply))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s Scanner
		for at := 0; at < len(data); {
			used, done, _, err := s.Next(data[at:])
			if used < 0 || used > len(data)-at {
				t.Fatalf("took %d of %d bytes", used, len(data)-at)
			}
			if at += used; err != nil || !done {
				return
			}
			if used == 0 {
				t.Fatal("a reply without bytes")
			}
		}
	})
}
