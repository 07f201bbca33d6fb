package tidemill

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// linkTo returns a Link and the other end of its connection.
func linkTo(t *testing.T) (*Link, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	link, err := NewLink(near, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		link.Close()
		far.Close()
	})
	return link, far
}

func TestLink_RepliesComeAsTheyWereSent(t *testing.T) {
	checkLeaks(t)
	const replies = "=7\r\ntxt:abc\r\n%1\r\n+k\r\n*-1\r\n-ERR " +
		"no\r\n|1\r\n+a\r\n:1\r\n$3\r\nx\r\n\r\n"
	for pieceBytes := 1; pieceBytes < 20; pieceBytes++ {
		link, far := linkTo(t)
		go func() {
			buffer := make([]byte, 64)
			n, _ := far.Read(buffer)
			if string(buffer[:n]) != "four commands" {
				t.Errorf("%q arrived", buffer[:n])
			}
			stream := ">2\r\n+invalidate\r\n_\r\n" + replies[:13] + ">1\r\n+x\r\n" + replies[13:]
			for at := 0; at < len(stream); at += pieceBytes {
				_, _ = io.WriteString(far, stream[at:min(at+pieceBytes, len(stream))])
			}
		}()
		got, err := link.Forward(testContext(t, 5*time.Second), []byte("four commands"), 4,
			[]byte("before "))
		if err != nil || string(got) != "before "+replies {
			t.Errorf("pieces of %d bytes: %q, %v", pieceBytes, got, err)
		}
	}
}

func TestLink_LostConnectionKeepsTheRepliesThatCame(t *testing.T) {
	checkLeaks(t)
	link, far := linkTo(t)
	go func() {
		_, _ = far.Read(make([]byte, 64))
		_, _ = io.WriteString(far, "+one\r\n$5\r\ntw")
		far.Close()
	}()
	got, err := link.Forward(testContext(t, 5*time.Second), []byte("commands"), 2, nil)
	if string(got) != "+one\r\n" || !errors.Is(err, ErrMaybeSent) || !errors.Is(err, io.EOF) {
		t.Errorf("%q, %v", got, err)
	}
	if !link.Lost() {
		t.Error("not lost")
	}
	if _, err := link.Forward(context.Background(), nil, 0, nil); !errors.Is(err, ErrArgument) {
		t.Errorf("no command: %v", err)
	}
	_, err = link.Forward(context.Background(), []byte("more"), 1, nil)
	if !errors.Is(err, ErrNotSent) {
		t.Errorf("afterwards: %v", err)
	}
}

func TestLink_MalformedReplyLosesTheConnection(t *testing.T) {
	checkLeaks(t)
	link, far := linkTo(t)
	go func() {
		_, _ = far.Read(make([]byte, 64))
		_, _ = io.WriteString(far, "what\r\n")
	}()
	_, err := link.Forward(testContext(t, 5*time.Second), []byte("c"), 1, nil)
	if !errors.Is(err, ErrProtocol) {
		t.Errorf("%v", err)
	}
}

func TestLink_SilenceEndsWithTheIOTimeout(t *testing.T) {
	checkLeaks(t)
	link, far := linkTo(t)
	link.SetIOTimeout(150 * time.Millisecond)
	go func() { _, _ = far.Read(make([]byte, 64)) }()
	_, err := link.Forward(testContext(t, 10*time.Second), []byte("c"), 1, nil)
	if !errors.Is(err, ErrTimeout) {
		t.Errorf("%v", err)
	}
}

func TestDescribeCommand_KnowsHowCommandsTravel(t *testing.T) {
	checkLeaks(t)
	for _, c := range []struct {
		name, sub string
		want      CommandTraits
	}{
		{"get", "", CommandTraits{}},
		{"BLPOP", "key", CommandTraits{Blocks: true}},
		{"xread", "count", CommandTraits{BlocksIf: true}},
		{"watch", "key", CommandTraits{Changes: true}},
		{"subscribe", "c", CommandTraits{Listens: true}},
		{"client", "Tracking", CommandTraits{Changes: true, Container: true}},
		{"CLIENT", "list", CommandTraits{Container: true}},
		{"client", "", CommandTraits{Container: true}},
		{"no.such.command", "x", CommandTraits{}},
		{"a name that is longer than any command there is", "x", CommandTraits{}},
		{"client", "a subcommand longer than any there is", CommandTraits{Container: true}},
	} {
		if got := DescribeCommand([]byte(c.name), []byte(c.sub)); got != c.want {
			t.Errorf("%s %s: %+v", c.name, c.sub, got)
		}
	}
}
