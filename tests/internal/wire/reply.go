// Package wire is a raw RESP2/RESP3 connection for tests: it sends the bytes it is given and
// returns replies exactly as they came, with the type byte of the protocol.
//
// A client library would hide what the tests look for (nil bulk against nil array, the order of a
// map, a double's spelling), so none is used here. It is not a client: no pool, no retries, no
// conversion to Go values.
package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Reply is one RESP value. Kind is its type byte; Null marks `$-1` and `*-1`. Maps hold key, value,
// key, value.
type Reply struct {
	Kind  byte
	Null  bool
	Text  []byte
	Items []Reply
}

// ErrProtocol marks bytes that are not RESP.
var ErrProtocol = errors.New("not RESP")

// A hostile or broken server must not make the test allocate without end.
const (
	bulkBytesMax = 512 << 20
	itemCountMax = 64 << 20
	depthMax     = 64
)

// IsError tells whether the reply is an error of either protocol version.
func (r Reply) IsError() bool { return r.Kind == '-' || r.Kind == '!' }

// IsAggregate tells whether the reply has items.
func (r Reply) IsAggregate() bool {
	switch r.Kind {
	case '*', '%', '~', '>', '|':
		return true
	}
	return false
}

// Int returns the value of an integer reply, 0 for any other.
func (r Reply) Int() int64 {
	value, _ := strconv.ParseInt(string(r.Text), 10, 64)
	return value
}

// String renders the reply on one line, unambiguous about types.
func (r Reply) String() string {
	var text strings.Builder
	r.render(&text)
	return text.String()
}

func (r Reply) render(out *strings.Builder) {
	out.WriteByte(r.Kind)
	if r.Null {
		out.WriteString("nil")
		return
	}
	if !r.IsAggregate() {
		switch r.Kind {
		case '$', '=':
			out.WriteString(strconv.Quote(string(r.Text)))
		default:
			out.Write(r.Text)
		}
		return
	}
	out.WriteByte('[')
	for index, item := range r.Items {
		if index > 0 {
			out.WriteByte(' ')
		}
		item.render(out)
	}
	out.WriteByte(']')
}

// ReadReply reads one value, blocking until it is complete.
func ReadReply(in *bufio.Reader) (Reply, error) { return readReply(in, 0) }

func readReply(in *bufio.Reader, depth int) (Reply, error) {
	if depth > depthMax {
		return Reply{}, fmt.Errorf("%w: nested deeper than %d", ErrProtocol, depthMax)
	}
	line, err := readLine(in)
	if err != nil {
		return Reply{}, err
	}
	if len(line) == 0 {
		return Reply{}, fmt.Errorf("%w: empty line", ErrProtocol)
	}
	reply := Reply{Kind: line[0]}
	switch line[0] {
	case '+', '-', ':', '_', '#', ',', '(':
		reply.Text = append([]byte(nil), line[1:]...)
		return reply, nil
	case '$', '=', '!':
		return readBulk(in, reply, line[1:])
	case '*', '~', '>', '%', '|':
		return readItems(in, reply, line[1:], depth)
	}
	return Reply{}, fmt.Errorf("%w: line %q", ErrProtocol, line)
}

func readBulk(in *bufio.Reader, reply Reply, header []byte) (Reply, error) {
	length, err := strconv.Atoi(string(header))
	if err != nil || length < -1 || length > bulkBytesMax {
		return Reply{}, fmt.Errorf("%w: bulk length %q", ErrProtocol, header)
	}
	if length == -1 {
		reply.Null = true
		return reply, nil
	}
	body := make([]byte, length+2)
	if _, err := io.ReadFull(in, body); err != nil {
		return Reply{}, err
	}
	if string(body[length:]) != "\r\n" {
		return Reply{}, fmt.Errorf("%w: bulk does not end in CRLF", ErrProtocol)
	}
	reply.Text = body[:length]
	return reply, nil
}

func readItems(in *bufio.Reader, reply Reply, header []byte, depth int) (Reply, error) {
	count, err := strconv.Atoi(string(header))
	if err != nil || count < -1 || count > itemCountMax {
		return Reply{}, fmt.Errorf("%w: item count %q", ErrProtocol, header)
	}
	if count == -1 {
		reply.Null = true
		return reply, nil
	}
	if reply.Kind == '%' || reply.Kind == '|' {
		count *= 2
	}
	for range count {
		item, err := readReply(in, depth+1)
		if err != nil {
			return Reply{}, err
		}
		reply.Items = append(reply.Items, item)
	}
	return reply, nil
}

func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		rest, restErr := in.ReadBytes('\n')
		line, err = append(append([]byte(nil), line...), rest...), restErr
	}
	if err != nil {
		return nil, err
	}
	if len(line) < 2 || line[len(line)-2] != '\r' {
		return nil, fmt.Errorf("%w: line %q does not end in CRLF", ErrProtocol, line)
	}
	return line[:len(line)-2], nil
}

// AppendReply appends the bytes of a reply.
func AppendReply(out []byte, reply Reply) []byte {
	out = append(out, reply.Kind)
	switch {
	case reply.Null:
		return append(out, "-1\r\n"...)
	case reply.IsAggregate():
		count := len(reply.Items)
		if reply.Kind == '%' || reply.Kind == '|' {
			count /= 2
		}
		out = append(strconv.AppendInt(out, int64(count), 10), "\r\n"...)
		for _, item := range reply.Items {
			out = AppendReply(out, item)
		}
		return out
	case reply.Kind == '$' || reply.Kind == '=' || reply.Kind == '!':
		out = append(strconv.AppendInt(out, int64(len(reply.Text)), 10), "\r\n"...)
	}
	return append(append(out, reply.Text...), "\r\n"...)
}
