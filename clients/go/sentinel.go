package tidemill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

var errDemoted = errors.New("tidemill: the server is no primary any more")

// NewSentinel returns a client of the primary that the sentinels name. They are asked before each
// connection; the first that answers is believed. A primary found demoted is left at once, and the
// command it refused returns its READONLY error. options.Address is not used; sentinels are asked without
// authentication and TLS.
func NewSentinel(sentinels []string, primary string, options Options) (*Client, error) {
	if len(sentinels) == 0 || primary == "" {
		return nil, argumentError("NewSentinel needs sentinels and the name of a primary")
	}
	if options.TLS != nil && options.TLS.ServerName == "" && !options.TLS.InsecureSkipVerify {
		return nil, argumentError("TLS behind sentinels needs a ServerName")
	}
	dialer := options.Dialer
	if dialer == nil {
		dialer = (&net.Dialer{}).DialContext
	}
	options.Address = "primary " + primary
	options.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
		address, err := askSentinels(ctx, dialer, sentinels, primary)
		if err != nil {
			return nil, err
		}
		return dialer(ctx, network, address)
	}
	setDefault(&options.ConnectWait, clusterWaitDefault)
	c, err := New(options)
	if err == nil {
		c.follows = true
	}
	return c, err
}

// sentinelWait bounds how long one sentinel may take, so that a dead one does not use up the dial timeout.
const sentinelWait = 500 * time.Millisecond

func askSentinels(ctx context.Context, dialer func(context.Context, string, string) (net.Conn, error), sentinels []string, primary string) (string, error) {
	var failures error
	for _, sentinel := range sentinels {
		address, err := askSentinel(ctx, dialer, sentinel, primary)
		if err == nil {
			return address, nil
		}
		failures = errors.Join(failures, fmt.Errorf("sentinel %s: %w", sentinel, err))
	}
	return "", failures
}

func askSentinel(ctx context.Context, dialer func(context.Context, string, string) (net.Conn, error), sentinel, primary string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, sentinelWait)
	defer cancel()
	conn, err := dialer(ctx, "tcp", sentinel)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	replies, err := exchange(conn, [][]any{{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", primary}})
	if err != nil {
		return "", err
	}
	parts, err := replies[0].Strings()
	if err != nil {
		return "", err
	}
	if len(parts) != 2 {
		return "", fmt.Errorf("%w: address of a primary", ErrProtocol)
	}
	return net.JoinHostPort(parts[0], parts[1]), nil
}

// leaveDemoted closes the connection to a server that refused a write as a replica.
func (c *Client) leaveDemoted(reply Reply) {
	if errors.Is(reply.Err(), ServerCode("READONLY")) {
		for _, p := range c.node.pipes() {
			p.kill(errDemoted)
		}
	}
}
