package process

import (
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// route is the address that a client has and the server's address that it connects to.
type route struct{ from, to string }

// routes are those of clients on the server's own host, and those of clients on another.
func routes() (near, far []route) {
	near = []route{{"127.0.0.1", "127.0.0.1"}, {"127.0.0.1", otherHost}}
	far = []route{{otherHost, otherHost}, {otherHost, "127.0.0.1"}}
	if hasIPv6() {
		near = append(near, route{"::1", "::1"}, route{"::1", otherHostIPv6})
		far = append(far, route{otherHostIPv6, otherHostIPv6}, route{otherHostIPv6, "::1"})
	}
	return near, far
}

func (r route) dial(t *testing.T, port int) *wire.Conn {
	t.Helper()
	conn, err := wire.DialFrom(net.ParseIP(r.from), net.JoinHostPort(r.to, strconv.Itoa(port)))
	if err != nil {
		t.Fatalf("%v: %v", r, err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// refusal is all that the server sends before it closes a connection on which nothing was asked.
func refusal(t *testing.T, conn net.Conn) string {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(closeTimeout))
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("the connection is still open after %q: %v", text, err)
	}
	return string(text)
}

// attempts is the count of connections by each route: enough for each of two workers to refuse one.
const attempts = 6

// requireRefused tries routes and returns what clients are told there.
func requireRefused(t *testing.T, server *instance.Server, refused []route) (told string) {
	t.Helper()
	for _, each := range refused {
		for range attempts {
			text := refusal(t, each.dial(t, server.Port))
			if !strings.HasPrefix(text, "-DENIED Running in protected mode because ") ||
				told != "" && text != told {
				t.Fatalf("a client by %v is told %q", each, text)
			}
			told = text
		}
	}
	return told
}

func requirePong(t *testing.T, conn *wire.Conn) {
	t.Helper()
	if reply := do(t, conn, "PING"); reply.String() != "+PONG" {
		t.Errorf("%v to %v: PING is answered %s", conn.LocalAddr(), conn.RemoteAddr(), reply)
	}
}

func requireServed(t *testing.T, server *instance.Server, served []route) {
	t.Helper()
	for _, each := range served {
		for range attempts {
			requirePong(t, each.dial(t, server.Port))
		}
	}
}

// listenEverywhere are the directives of a server that other hosts reach too.
func listenEverywhere(kind instance.Kind) []string {
	near, _ := routes()
	directives := append(workers(kind), "--bind")
	for _, each := range near {
		directives = append(directives, each.to)
	}
	return directives
}

func TestProtectedMode_RefusesOtherHosts(t *testing.T) {
	inOwnNetwork(t, func(t *testing.T) {
		told := map[instance.Kind]string{}
		both(t, func(t *testing.T, kind instance.Kind) {
			socket := filepath.Join(t.TempDir(), "socket")
			server := instance.Start(t, kind,
				append(listenEverywhere(kind), "--unixsocket", socket)...)
			control := server.Dial(t)
			near, far := routes()
			before := field(t, control, "stats", "total_connections_received")
			told[kind] = requireRefused(t, server, far)
			if received := field(t, control, "stats",
				"total_connections_received") - before; received != 0 {
				t.Errorf("%d refused connections count as received", received)
			}
			if rejected := field(t, control, "stats",
				"rejected_connections"); rejected != attempts*len(far) {
				t.Errorf("%d of %d refused connections count as rejected", rejected,
					attempts*len(far))
			}
			requireServed(t, server, near)
			local, err := wire.Dial(socket)
			if err != nil {
				t.Fatal(err)
			}
			defer local.Close()
			requirePong(t, local)
		})
		if told[instance.Valkey] != told[instance.Subject] {
			t.Errorf("valkey says\n%s\nthe subject says\n%s", told[instance.Valkey],
				told[instance.Subject])
		}
	})
}

func TestProtectedMode_FollowsConfigSet(t *testing.T) {
	inOwnNetwork(t, func(t *testing.T) {
		both(t, func(t *testing.T, kind instance.Kind) {
			server := instance.Start(t, kind, append(listenEverywhere(kind), "--protected-mode",
				"no")...)
			control := server.Dial(t)
			near, far := routes()
			requireServed(t, server, far)
			stays := far[0].dial(t, server.Port)
			requirePong(t, stays)
			for range 5 {
				expectOK(t, control, "CONFIG", "SET", "protected-mode", "yes")
				requireRefused(t, server, far)
				expectOK(t, control, "CONFIG", "SET", "protected-mode", "no")
				requireServed(t, server, far)
			}
			expectOK(t, control, "CONFIG", "SET", "protected-mode", "yes")
			requireServed(t, server, near)
			requirePong(t, stays)
		})
	})
}

func TestProtectedMode_EndsWithAPassword(t *testing.T) {
	inOwnNetwork(t, func(t *testing.T) {
		both(t, func(t *testing.T, kind instance.Kind) {
			server := instance.Start(t, kind, listenEverywhere(kind)...)
			control := server.Dial(t)
			_, far := routes()
			expectOK(t, control, "CONFIG", "SET", "requirepass", "secret")
			for _, each := range far {
				for range attempts {
					conn := each.dial(t, server.Port)
					if reply := do(t, conn,
						"PING"); reply.String() != "-NOAUTH Authentication required." {
						t.Errorf("without the password PING is answered %s", reply)
					}
					expectOK(t, conn, "AUTH", "secret")
					requirePong(t, conn)
				}
			}
			expectOK(t, control, "CONFIG", "SET", "requirepass", "")
			requireRefused(t, server, far)
		})
	})
}
