package wire

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// Conn is one connection. It is not safe for concurrent use, but one goroutine may send while
// another receives.
type Conn struct {
	net.Conn
	in *bufio.Reader
	// Timeout bounds one Receive and one Send; a server that hangs fails the test instead of
	// stopping it.
	Timeout time.Duration
}

// Dial connects over TCP, or over a Unix socket when the address starts with a slash.
func Dial(address string) (*Conn, error) {
	network := "tcp"
	if len(address) > 0 && address[0] == '/' {
		network = "unix"
	}
	return dial(net.Dialer{}, network, address)
}

// DialFrom connects over TCP from one of this host's own addresses.
func DialFrom(own net.IP, address string) (*Conn, error) {
	return dial(net.Dialer{LocalAddr: &net.TCPAddr{IP: own}}, "tcp", address)
}

func dial(dialer net.Dialer, network, address string) (*Conn, error) {
	dialer.Timeout = 10 * time.Second
	socket, err := dialer.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return New(socket), nil
}

// New speaks over a connection of any kind.
func New(socket net.Conn) *Conn {
	return &Conn{Conn: socket, in: bufio.NewReaderSize(socket, 64<<10), Timeout: 30 * time.Second}
}

// AppendCommand appends a command as an array of bulk strings.
func AppendCommand(out []byte, arguments ...[]byte) []byte {
	out = append(out, '*')
	out = strconv.AppendInt(out, int64(len(arguments)), 10)
	out = append(out, '\r', '\n')
	for _, argument := range arguments {
		out = append(out, '$')
		out = strconv.AppendInt(out, int64(len(argument)), 10)
		out = append(out, '\r', '\n')
		out = append(out, argument...)
		out = append(out, '\r', '\n')
	}
	return out
}

// Arguments turns words into a command's arguments.
func Arguments(words ...string) [][]byte {
	arguments := make([][]byte, len(words))
	for index, word := range words {
		arguments[index] = []byte(word)
	}
	return arguments
}

// SendRaw writes bytes as they are.
func (c *Conn) SendRaw(bytes []byte) error {
	if err := c.SetWriteDeadline(time.Now().Add(c.Timeout)); err != nil {
		return err
	}
	_, err := c.Write(bytes)
	return err
}

// Send writes one command without waiting for its reply.
func (c *Conn) Send(words ...string) error {
	return c.SendRaw(AppendCommand(nil, Arguments(words...)...))
}

// Receive reads one reply.
func (c *Conn) Receive() (Reply, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.Timeout)); err != nil {
		return Reply{}, err
	}
	return ReadReply(c.in)
}

// Do sends one command and reads one reply.
func (c *Conn) Do(words ...string) (Reply, error) {
	if err := c.Send(words...); err != nil {
		return Reply{}, fmt.Errorf("send %.60q: %w", words, err)
	}
	reply, err := c.Receive()
	if err != nil {
		return Reply{}, fmt.Errorf("reply to %.60q: %w", words, err)
	}
	return reply, nil
}

// Finish ends what is sent, and waits until the server has closed the connection: it is then in no
// list of clients. The connection is one of TCP.
func (c *Conn) Finish() error {
	defer c.Close()
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(c.Timeout)); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, c.in)
	return err
}
