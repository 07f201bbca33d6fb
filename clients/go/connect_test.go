package tidemill

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.tidemill.dev/client/internal/tlsfront"
)

func TestDial_UnixSocketServesCommands(t *testing.T) {
	for _, binary := range serverBinaries {
		t.Run(binary, func(t *testing.T) {
			checkLeaks(t)
			path := filepath.Join(t.TempDir(), "s")
			startServer(t, binary, "--unixsocket", path)
			c := newTestClient(t, path)
			ctx := testContext(t, 10*time.Second)
			info, err := c.Do(ctx, "CLIENT", "INFO").Text()
			if err != nil || !strings.Contains(info, " flags=U ") {
				t.Fatal(info, err)
			}
		})
	}
}

// Each connection asks for credentials, so that a token that expired is followed by the next one.
func TestDial_CredentialsAreRefreshedOnEachConnection(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		ctx := testContext(t, 20*time.Second)
		admin := newTestClient(t, s.address)
		var token atomic.Int64
		allow := func(n int64) {
			password := fmt.Sprintf(">secret%d", n)
			if err := admin.Do(ctx, "ACL", "SETUSER", "app", "reset", "on", password, "~*",
				"+@all").Err(); err != nil {
				t.Fatal(err)
			}
		}
		allow(0)
		c := newTestClient(t, s.address, func(o *Options) {
			o.Credentials = func(context.Context) (string, string, error) {
				return "app", fmt.Sprintf("secret%d", token.Load()), nil
			}
		})
		for n := range int64(3) {
			allow(n)
			token.Store(n)
			// Removes the authenticated connection, as a server does when its user changes.
			_ = admin.Do(ctx, "CLIENT", "KILL", "USER", "app").Err()
			if who, err := c.Do(WithIdempotent(ctx), "ACL", "WHOAMI").Text(); err != nil ||
				who != "app" {
				t.Fatal(n, who, err)
			}
		}
		stale := newTestClient(t, s.address, func(o *Options) {
			o.Username, o.Password = "app", "secret0"
		})
		err := stale.Do(ctx, "PING").Err()
		if !errors.Is(err, ServerCode("WRONGPASS")) || !errors.Is(err, ErrNotSent) {
			t.Error("a stale token:", err)
		}
		if err != nil && strings.Contains(err.Error(), "secret0") {
			t.Error("the error shows the password:", err)
		}
	})
}

// A user may have no password.
func TestDial_UserWithoutPasswordIsLoggedIn(t *testing.T) {
	eachServer(t, func(t *testing.T, s *testServer) {
		ctx := testContext(t, 20*time.Second)
		admin := newTestClient(t, s.address)
		if err := admin.Do(ctx, "ACL", "SETUSER", "guest", "on", "nopass", "~*",
			"+@all").Err(); err != nil {
			t.Fatal(err)
		}
		for _, old := range []bool{false, true} {
			c := newTestClient(t, s.address, func(o *Options) {
				o.Username, o.ForceRESP2 = "guest", old
			})
			if who, err := c.Do(ctx, "ACL", "WHOAMI").Text(); who != "guest" || err != nil {
				t.Error(old, who, err)
			}
		}
	})
}

// The server here answers nothing before it has all requests of the greeting: a client that waits
// for a reply in between waits for ever.
func TestDial_TakesOneRoundTrip(t *testing.T) {
	for _, first := range []string{"HELLO", "AUTH"} {
		t.Run(first, func(t *testing.T) {
			checkLeaks(t)
			var mu sync.Mutex
			var names []string
			address := startScript(t, func(name string) string {
				mu.Lock()
				defer mu.Unlock()
				if name == "GET" {
					return "$1\r\nv\r\n"
				}
				if names = append(names, name); len(names) < 5 {
					return ""
				}
				return "+OK\r\n+OK\r\n-ERR unknown subcommand\r\n-NOPERM no\r\n-ERR no such " +
					"name\r\n"
			})
			c := newTestClient(t, address, func(o *Options) {
				o.Username, o.Password, o.Database, o.Name, o.ForceRESP2 = "app", "pw", 3, "worker",
					first == "AUTH"
			})
			if got, err := c.Get(testContext(t, 10*time.Second), "key").Text(); got != "v" ||
				err != nil {
				t.Error(got, err)
			}
			if got := fmt.Sprint(names); got != "["+first+" SELECT CLIENT CLIENT CLIENT]" {
				t.Error(got)
			}
		})
	}
}

func TestDial_ServerWithoutHelloIsSpokenToInRESP2(t *testing.T) {
	for _, binary := range serverBinaries {
		for _, password := range []string{"", "hunter2"} {
			t.Run(binary+password, func(t *testing.T) {
				checkLeaks(t)
				s := startServer(t, binary, "--rename-command", "HELLO", "", "--requirepass",
					password)
				ctx := testContext(t, 10*time.Second)
				c := newTestClient(t, s.address, func(o *Options) {
					o.Password, o.Database, o.Name = password, 3, "worker"
				})
				info, err := c.Do(ctx, "CLIENT", "INFO").Text()
				if err != nil || !strings.Contains(info, " db=3 ") ||
					!strings.Contains(info, " name=worker ") || strings.Contains(info, "resp=3") {
					t.Error(info, err)
				}
				wrong := newTestClient(t, s.address, func(o *Options) { o.Password = "hunter3" })
				if err := wrong.Do(ctx, "PING").Err(); !errors.Is(err, ErrNotSent) ||
					strings.Contains(err.Error(), "hunter3") {
					t.Error("a wrong password:", err)
				}
			})
		}
	}
}

func TestDial_TLSVerifiesTheServerAndRefusesOldVersions(t *testing.T) {
	checkLeaks(t)
	s := startServer(t, "valkey-server")
	certificate, roots := tlsfront.SelfSigned(t)
	ctx := testContext(t, 20*time.Second)
	dialed := func(server, client *tls.Config) error {
		server.Certificates = []tls.Certificate{certificate}
		address := tlsfront.Start(t, s.address, server)
		c := newTestClient(t, address, func(o *Options) {
			o.TLS, o.ConnectWait = client, 3*time.Second
		})
		return c.Set(ctx, "key", strings.Repeat("x", 1<<20)).Err()
	}
	waitFor(t, 20*time.Second, "TLS", func() bool {
		return dialed(&tls.Config{}, &tls.Config{RootCAs: roots}) == nil
	})
	waitFor(t, 20*time.Second, "the refusal of an unknown authority", func() bool {
		var unknown *tls.CertificateVerificationError
		err := dialed(&tls.Config{}, &tls.Config{})
		if !errors.Is(err, ErrNotSent) {
			t.Fatal("an unknown authority:", err)
		}
		return errors.As(err, &unknown) // else connecting took longer than ConnectWait
	})
	old := &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	err := dialed(old, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10})
	if !errors.Is(err, ErrNotSent) {
		t.Error("TLS 1.1:", err)
	}
}
