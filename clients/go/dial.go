package tidemill

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"
)

// libraryVersion is announced by CLIENT SETINFO.
const libraryVersion = "0.1.0"

// dial connects, authenticates and prepares one connection. extra commands run last; their errors
// fail the connection. The connection's deadline is clear afterwards.
func dial(ctx context.Context, options *Options, address string, extra ...[]any) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, options.DialTimeout)
	defer cancel()
	conn, err := dialSocket(ctx, options, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = handshake(ctx, conn, options, extra)
	if !stop() && err == nil {
		err = endOf(ctx)
	}
	if err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			err = errors.Join(endOf(ctx), err)
		}
		return nil, err
	}
	return conn, nil
}

func dialSocket(ctx context.Context, options *Options, address string) (net.Conn, error) {
	network := "tcp"
	if strings.HasPrefix(address, "/") || strings.HasPrefix(address, "@") {
		network = "unix"
	}
	dialer := options.Dialer
	if dialer == nil {
		dialer = (&net.Dialer{}).DialContext
	}
	var conn net.Conn
	var err error
	panicked := contain(func() { conn, err = dialer(ctx, network, address) })
	if err = cmp.Or(panicked, err); err != nil || options.TLS == nil {
		return conn, err
	}
	config := options.TLS.Clone()
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	if config.ServerName == "" && !config.InsecureSkipVerify {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secured, nil
}

// handshake asks for RESP3, authenticates and prepares the connection in one round trip. What an
// older or managed server may refuse is no failure; a second round trip is needed only where HELLO
// was refused together with the password in it.
func handshake(ctx context.Context, conn net.Conn, options *Options, extra [][]any) error {
	username, password := options.Username, options.Password
	if options.Credentials != nil {
		var err error
		panicked := contain(func() { username, password, err = options.Credentials(ctx) })
		if err = cmp.Or(panicked, err); err != nil {
			return err
		}
	}
	authenticates := username != "" || password != ""
	if !options.ForceRESP2 {
		hello := []any{"HELLO", 3}
		if authenticates {
			user := username
			setDefault(&user, "default")
			hello = append(hello, "AUTH", user, password)
		}
		refusal, failure, err := greet(conn, options, hello, extra)
		if err != nil {
			return err
		}
		if refusal == nil || !authenticates {
			return failure
		}
		if errors.Is(refusal, ServerCode("WRONGPASS")) {
			return refusal
		}
	}
	var login []any
	if authenticates {
		login = []any{"AUTH", password}
		if username != "" {
			login = []any{"AUTH", username, password}
		}
	}
	refusal, failure, err := greet(conn, options, login, extra)
	return cmp.Or(err, refusal, failure)
}

// greet sends login, which may be nil, and everything that prepares a connection. refusal is what
// the server said to login, failure what it said to what the connection cannot do without.
func greet(
	conn net.Conn, options *Options, login []any, extra [][]any,
) (refusal, failure, err error) {
	var commands [][]any
	if login != nil {
		commands = append(commands, login)
	}
	if options.Database != 0 {
		commands = append(commands, []any{"SELECT", options.Database})
	}
	commands = append(commands, extra...)
	required := len(commands)
	commands = append(commands,
		[]any{"CLIENT", "SETINFO", "LIB-NAME", "tidemill-go"},
		[]any{"CLIENT", "SETINFO", "LIB-VER", libraryVersion})
	if options.Name != "" {
		commands = append(commands, []any{"CLIENT", "SETNAME", options.Name})
	}
	replies, err := exchange(conn, commands)
	if err != nil {
		return nil, nil, err
	}
	replies = replies[:required]
	if login != nil {
		refusal, replies = replies[0].Err(), replies[1:]
	}
	for _, reply := range replies {
		failure = cmp.Or(failure, reply.Err())
	}
	return refusal, failure, nil
}

// exchange writes commands and reads as many replies, on a connection nobody else uses yet.
func exchange(conn net.Conn, commands [][]any) ([]Reply, error) {
	var wire []byte
	for _, command := range commands {
		var err error
		if wire, err = appendCommand(wire, command); err != nil {
			return nil, err
		}
	}
	if _, err := conn.Write(wire); err != nil {
		return nil, err
	}
	var replies []Reply
	var parser parser
	buffer := make([]byte, 4096)
	held := 0
	for len(replies) < len(commands) {
		n, err := conn.Read(buffer[held:])
		if n == 0 && err != nil {
			return nil, err
		}
		held += n
		start := 0
		for start < held {
			used, reply, done, err := parser.next(buffer[start:held])
			start += used
			if err != nil {
				return nil, err
			}
			if !done {
				break
			}
			if reply.kind != KindPush {
				replies = append(replies, reply)
			}
		}
		held = copy(buffer, buffer[start:held])
		if held == len(buffer) {
			buffer = append(buffer, make([]byte, len(buffer))...)
		}
	}
	return replies, nil
}
