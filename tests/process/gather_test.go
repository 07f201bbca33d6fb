package process

import (
	"fmt"
	"syscall"
	"testing"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// sleeper is a client, the requests that it sends while the server sleeps, and the expected
// replies.
type sleeper struct {
	conn    *wire.Conn
	request []byte
	rest    []byte
	replies []string
}

// Clients that are ready at the same moment are read together; each is answered as if it had come
// alone.
func TestReadyTogether_EachClientGetsItsOwnReplies(t *testing.T) {
	server := instance.Start(t, instance.Subject, "--worker-threads", "1")
	control := server.Dial(t)
	command := func(words ...string) []byte {
		return wire.AppendCommand(nil, wire.Arguments(words...)...)
	}
	// Twice: what begins like a request before it is recognized by that.
	for round := range 2 {
		var sleepers []*sleeper
		add := func(request []byte, replies ...string) *sleeper {
			one := &sleeper{conn: server.Dial(t), request: request, replies: replies}
			// A connection that was answered once is accepted and has nothing under way.
			do(t, one.conn, "PING")
			sleepers = append(sleepers, one)
			return one
		}
		do(t, control, "FLUSHALL")
		for index := range 60 {
			key, value := fmt.Sprintf("key:%d", index),
				fmt.Sprintf("value %d of round %d", index, round)
			do(t, control, "SET", key, value)
			quoted := fmt.Sprintf("$%q", value)
			switch index % 10 {
			default:
				add(command("GET", key), quoted)
			case 1:
				add(append(command("GET", key), command("STRLEN", key)...), quoted,
					fmt.Sprint(":", len(value)))
			case 2:
				whole := command("GET", key)
				cut := index % len(whole)
				add(whole[:cut], quoted).rest = whole[cut:]
			case 3:
				do(t, add(command("GET", key), "$nil").conn, "SELECT", "1")
			case 4:
				do(t, add(command("GET", key), "+QUEUED").conn, "MULTI")
			case 5:
				add(command("LLEN", key),
					"-WRONGTYPE Operation against a key holding the wrong kind of value")
			case 6:
				add([]byte("GET "+key+"\r\n"), quoted)
			case 7:
				add(command("NOSUCH", key),
					fmt.Sprintf("-ERR unknown command 'NOSUCH', with args beginning with: '%s' ",
						key))
			case 8:
				add(command("QUIT"), "+OK")
			}
		}
		if err := syscall.Kill(server.PID, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for _, one := range sleepers {
			if err := one.conn.SendRaw(one.request); err != nil {
				t.Error(err)
			}
		}
		if err := syscall.Kill(server.PID, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		for index, one := range sleepers {
			one.requireReplies(t, fmt.Sprintf("client %d, round %d", index, round))
		}
	}
}

// requireReplies sends the rest of the request and compares the replies.
func (s *sleeper) requireReplies(t *testing.T, name string) {
	t.Helper()
	if err := s.conn.SendRaw(s.rest); err != nil {
		t.Fatal(err)
	}
	for _, want := range s.replies {
		reply, err := s.conn.Receive()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if reply.String() != want {
			t.Errorf("%s: %q is answered %s, not %s", name, s.request, reply, want)
		}
	}
}
