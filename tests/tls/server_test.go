// Package tls tests the port for TLS: who is let in and who is not, what reaches the commands, and
// what clients that misbehave cost.
package tls

import (
	"crypto/tls"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// server is a server with a port for TLS.
type server struct {
	*instance.Server
	authority *authority
	identity  *identity
	port      int
}

// start runs a server whose certificate has a key made by newKey. Clients need no certificate,
// unless directives say so.
func start(t *testing.T, directives ...string) *server {
	t.Helper()
	trusted := newAuthority(t, "authority")
	return startAs(t, trusted, trusted.issue(t, "server", tomorrow(), newECDSA(t)), directives...)
}

func startAs(t *testing.T, trusted *authority, own *identity, directives ...string) *server {
	t.Helper()
	all := append([]string{
		"--tls-port", instance.OtherPort, "--tls-cert-file", own.certificateFile,
		"--tls-key-file", own.keyFile, "--tls-ca-cert-file", trusted.file,
		"--tls-auth-clients", "no",
	}, directives...)
	started := instance.Start(t, instance.Subject, all...)
	return &server{started, trusted, own, started.OtherPort}
}

func (s *server) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// config is the configuration of a client that trusts the server and shows some certificates.
func (s *server) config(own ...*identity) *tls.Config {
	config := &tls.Config{RootCAs: s.authority.pool(), ServerName: "localhost"}
	for _, identity := range own {
		config.Certificates = append(config.Certificates, identity.Certificate)
	}
	return config
}

// dial connects and completes the handshake. TLS 1.3 tells a client only with the first read that
// its certificate is refused, so that a PING is part of it.
func (s *server) dial(config *tls.Config) (*wire.Conn, error) {
	dialer := &net.Dialer{Timeout: 30 * time.Second}
	socket, err := tls.DialWithDialer(dialer, "tcp", s.address(), config)
	if err != nil {
		return nil, err
	}
	conn := wire.New(socket)
	if _, err := conn.Do("PING"); err != nil {
		socket.Close()
		return nil, err
	}
	return conn, nil
}

func (s *server) mustDial(t *testing.T, config *tls.Config) *wire.Conn {
	t.Helper()
	conn, err := s.dial(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// do runs a command that must not fail.
func do(t *testing.T, conn *wire.Conn, words ...string) wire.Reply {
	t.Helper()
	reply, err := conn.Do(words...)
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return reply
}

// expect runs a command whose reply is known.
func expect(t *testing.T, conn *wire.Conn, want string, words ...string) {
	t.Helper()
	if reply := do(t, conn, words...); !strings.Contains(reply.String(), want) {
		t.Errorf("%v: %s instead of %s", words, reply, want)
	}
}

// info reads a number of INFO over the plain port.
func (s *server) info(t *testing.T, field string) int {
	t.Helper()
	conn := s.Dial(t)
	defer conn.Close()
	text := do(t, conn, "INFO", "everything").String()
	found := regexp.MustCompile(field + `:(\d+)`).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("INFO has no %s:\n%s", field, text)
	}
	number, _ := strconv.Atoi(found[1])
	return number
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); {
		if holds() {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}
