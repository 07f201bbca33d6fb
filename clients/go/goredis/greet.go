package goredis

import (
	"errors"
	"net"
	"strings"

	"go.tidemill.dev/client/internal/rawreply"
)

// greet sends commands on a fresh connection and reads their replies, none of which may be an
// error. What came behind them, pushes for instance, is returned.
func greet(conn net.Conn, commands []byte, count int) (rest []byte, err error) {
	if count == 0 {
		return nil, nil
	}
	if _, err := conn.Write(commands); err != nil {
		return nil, err
	}
	var scanner rawreply.Scanner
	var data []byte
	start, at := 0, 0 // of the reply being read, of what is not scanned
	buffer := make([]byte, 4096)
	for count > 0 {
		n, err := conn.Read(buffer)
		if n == 0 && err != nil {
			return nil, err
		}
		data = append(data, buffer[:n]...)
		for count > 0 {
			used, done, push, err := scanner.Next(data[at:])
			if err != nil {
				return nil, err
			}
			if at += used; !done {
				break
			}
			if !push {
				count--
				if isError(data[start:at]) {
					return nil, errors.New(strings.TrimSpace(string(data[start+1 : at])))
				}
			}
			start = at
		}
	}
	return data[at:], nil
}
