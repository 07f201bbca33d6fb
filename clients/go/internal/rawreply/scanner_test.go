package rawreply

import (
	"errors"
	"strings"
	"syscall"
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

func TestScanner_TakesLongLines(t *testing.T) {
	all := []string{"-" + strings.Repeat("x", 100<<10) + "\r\n", "+OK\r\n",
		"*1\r\n(" + strings.Repeat("1", 100<<10) + "\r\n"}
	for _, pieceBytes := range []int{1000, 64 << 10, 1 << 20} {
		found := scan(t, strings.Join(all, ""), pieceBytes)
		if strings.Join(found, "|") != strings.Join(all, "|") {
			t.Errorf("pieces of %d bytes: other replies", pieceBytes)
		}
	}
}

func TestScanner_RefusesWhatIsNoReply(t *testing.T) {
	for _, data := range []string{"\r\n", "OK\r\n", "+OK\n", "$x\r\n", "$-2\r\n", "*-5\r\n",
		"$9999999999\r\n", "$?\r\n", "*?\r\n", "%99999999999999999999\r\n"} {
		var s Scanner
		if _, _, _, err := s.Next([]byte(data)); err == nil {
			t.Errorf("%.20q was accepted", data)
		}
	}
}

func TestScanner_RefusesALineWithoutEnd(t *testing.T) {
	// Memory that takes no room as long as nobody writes to it.
	data, err := syscall.Mmap(-1, 0, lineBytesMax+1, syscall.PROT_READ,
		syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = syscall.Munmap(data) }()
	var s Scanner
	for _, size := range []int{1, lineBytesMax / 2, lineBytesMax} {
		if used, done, _, err := s.Next(data[:size]); used != 0 || done || err != nil {
			t.Error(size, used, done, err)
		}
	}
	if _, _, _, err := s.Next(data); !errors.Is(err, ErrSyntax) {
		t.Error(err)
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
