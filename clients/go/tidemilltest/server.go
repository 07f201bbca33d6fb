// Package tidemilltest is a server for tests of code that uses the client: it runs in the test's
// process, records every command and answers what the test said.
//
// It listens on a loopback port, so that the client under test is the real one, with its real pipe.
// It is no Redis: it knows no commands and holds no data. A command without an answer gets an
// error.
package tidemilltest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Answer is what a handler returns: nil, string, int, error (sent as its text), Status or []any of
// these.
type Answer = any

// Status is a simple string such as OK.
type Status string

// Handler answers one command; args include its name.
type Handler func(args []string) Answer

// Server is the fake.
type Server struct {
	listener net.Listener
	mu       sync.Mutex
	handlers map[string]Handler
	calls    [][]string
	conns    map[net.Conn]bool
	closed   bool
	group    sync.WaitGroup
}

// Start starts a server that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{listener: listener, handlers: map[string]Handler{}, conns: map[net.Conn]bool{}}
	s.group.Go(s.accept)
	t.Cleanup(s.close)
	return s
}

// Address is what the client connects to.
func (s *Server) Address() string { return s.listener.Addr().String() }

// On sets the answer to a command, by name without regard to case.
func (s *Server) On(name string, handler Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers[strings.ToUpper(name)] = handler
}

// Calls returns the commands so far, in order of arrival, without those of the handshake.
func (s *Server) Calls() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]string(nil), s.calls...)
}

// Disconnect closes all connections, as a crash would.
func (s *Server) Disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close()
	}
}

func (s *Server) close() {
	_ = s.listener.Close()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.Disconnect()
	s.group.Wait()
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			_ = conn.Close()
		}
		s.conns[conn] = true
		s.mu.Unlock()
		s.group.Go(func() { s.serve(conn) })
	}
}

func (s *Server) serve(conn net.Conn) {
	defer func() {
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
		_ = conn.Close()
	}()
	reader := bufio.NewReader(conn)
	for {
		args, err := readCommand(reader)
		if err != nil {
			return
		}
		if _, err := conn.Write(appendAnswer(nil, s.answer(args))); err != nil {
			return
		}
	}
}

func (s *Server) answer(args []string) Answer {
	name := strings.ToUpper(args[0])
	s.mu.Lock()
	handler := s.handlers[name]
	if handler == nil && (name == "HELLO" || name == "CLIENT" || name == "PING") {
		s.mu.Unlock()
		return Status("OK")
	}
	s.calls = append(s.calls, args)
	s.mu.Unlock()
	if handler == nil {
		return fmt.Errorf("ERR tidemilltest has no answer to %s", name)
	}
	return handler(args)
}

// lengthMax bounds the arguments of a command and the bytes of each.
const lengthMax = 64 << 20

func readCommand(reader *bufio.Reader) ([]string, error) {
	count, err := readLength(reader, '*')
	if err != nil || count < 1 {
		return nil, fmt.Errorf("no command: %w", err)
	}
	var args []string
	for range count {
		length, err := readLength(reader, '$')
		if err != nil {
			return nil, err
		}
		data := make([]byte, length+2)
		if _, err := io.ReadFull(reader, data); err != nil {
			return nil, err
		}
		args = append(args, string(data[:length]))
	}
	return args, nil
}

func readLength(reader *bufio.Reader, kind byte) (int, error) {
	line, err := reader.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 3 || line[0] != kind {
		return 0, fmt.Errorf("wanted %q, got %q", kind, line)
	}
	length, err := strconv.Atoi(strings.TrimRight(line[1:], "\r\n"))
	if err == nil && (length < 0 || length > lengthMax) {
		err = fmt.Errorf("length %d", length)
	}
	return length, err
}

func appendAnswer(wire []byte, answer Answer) []byte {
	switch value := answer.(type) {
	case nil:
		return append(wire, "$-1\r\n"...)
	case Status:
		return fmt.Appendf(wire, "+%s\r\n", string(value))
	case string:
		return fmt.Appendf(wire, "$%d\r\n%s\r\n", len(value), value)
	case int:
		return fmt.Appendf(wire, ":%d\r\n", value)
	case error:
		return fmt.Appendf(wire, "-%s\r\n", value.Error())
	case []any:
		wire = fmt.Appendf(wire, "*%d\r\n", len(value))
		for _, item := range value {
			wire = appendAnswer(wire, item)
		}
		return wire
	}
	return fmt.Appendf(wire, "-ERR tidemilltest cannot send %T\r\n", answer)
}
