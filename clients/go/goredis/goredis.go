// Package goredis gives users of go-redis the implicit pipelining of go.tidemill.dev/client: they
// change the constructor and keep everything else, because what they get are go-redis's own
// clients.
//
//	rdb := goredis.NewClient(&redis.Options{Addr: "localhost:6379"})
//
// It works below go-redis, in the place of the socket: the connections in go-redis's pool are
// virtual and share one real one, on which the commands of all goroutines travel together. So every
// command, reply type, error, hook, retry and option of go-redis is go-redis's own. README.md tells
// what was compared with this, and what differs.
package goredis

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// poolSizeDefault is the number of virtual connections, that is of concurrent commands;
	// go-redis's own default is made for real ones and would keep commands from gathering.
	poolSizeDefault = 512
	// bufferBytesDefault is the size of go-redis's two buffers for each of them.
	bufferBytesDefault = 4 << 10

	dialTimeoutDefault = 5 * time.Second
	ioTimeoutDefault   = 10 * time.Second
)

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// NewClient is redis.NewClient on a shared pipelined connection. Options that are not set and
// concern pooled sockets take other defaults: PoolSize 512, buffers of 4 KiB, maintenance
// notifications off.
func NewClient(options *redis.Options) *redis.Client {
	own := *options
	own.Dialer = share(own.Dialer, own.TLSConfig, own.DialTimeout, own.ReadTimeout)
	setDefault(&own.PoolSize, poolSizeDefault)
	setDefault(&own.ReadBufferSize, bufferBytesDefault)
	setDefault(&own.WriteBufferSize, bufferBytesDefault)
	quiet(&own.MaintNotificationsConfig)
	return redis.NewClient(&own)
}

// NewClusterClient is redis.NewClusterClient with one shared pipelined connection for each node.
func NewClusterClient(options *redis.ClusterOptions) *redis.ClusterClient {
	own := *options
	own.Dialer = share(own.Dialer, own.TLSConfig, own.DialTimeout, own.ReadTimeout)
	setDefault(&own.PoolSize, poolSizeDefault)
	setDefault(&own.ReadBufferSize, bufferBytesDefault)
	setDefault(&own.WriteBufferSize, bufferBytesDefault)
	quiet(&own.MaintNotificationsConfig)
	return redis.NewClusterClient(&own)
}

// NewFailoverClient is redis.NewFailoverClient on a shared pipelined connection to the master.
func NewFailoverClient(options *redis.FailoverOptions) *redis.Client {
	return redis.NewFailoverClient(failover(options))
}

// NewFailoverClusterClient is redis.NewFailoverClusterClient with one shared pipelined connection
// for each server.
func NewFailoverClusterClient(options *redis.FailoverOptions) *redis.ClusterClient {
	return redis.NewFailoverClusterClient(failover(options))
}

func failover(options *redis.FailoverOptions) *redis.FailoverOptions {
	own := *options
	own.Dialer = share(own.Dialer, own.TLSConfig, own.DialTimeout, own.ReadTimeout)
	setDefault(&own.PoolSize, poolSizeDefault)
	setDefault(&own.ReadBufferSize, bufferBytesDefault)
	setDefault(&own.WriteBufferSize, bufferBytesDefault)
	return &own
}

// NewRing is redis.NewRing with one shared pipelined connection for each shard.
func NewRing(options *redis.RingOptions) *redis.Ring {
	own := *options
	own.Dialer = share(own.Dialer, own.TLSConfig, own.DialTimeout, own.ReadTimeout)
	setDefault(&own.PoolSize, poolSizeDefault)
	setDefault(&own.ReadBufferSize, bufferBytesDefault)
	setDefault(&own.WriteBufferSize, bufferBytesDefault)
	return redis.NewRing(&own)
}

// NewUniversalClient is redis.NewUniversalClient on shared pipelined connections.
func NewUniversalClient(options *redis.UniversalOptions) redis.UniversalClient {
	own := *options
	own.Dialer = share(own.Dialer, own.TLSConfig, own.DialTimeout, own.ReadTimeout)
	setDefault(&own.PoolSize, poolSizeDefault)
	setDefault(&own.ReadBufferSize, bufferBytesDefault)
	setDefault(&own.WriteBufferSize, bufferBytesDefault)
	quiet(&own.MaintNotificationsConfig)
	return redis.NewUniversalClient(&own)
}

// share puts virtual connections in front of what dial opens; without dial, of what go-redis would
// open itself. A shared connection that sends nothing for the read timeout while replies are due,
// and at least for ten seconds, is closed.
func share(dial dialer, secure *tls.Config, dialTimeout, readTimeout time.Duration) dialer {
	if dialTimeout <= 0 {
		dialTimeout = dialTimeoutDefault
	}
	if dial == nil {
		dial = redis.NewDialer(&redis.Options{DialTimeout: dialTimeout, TLSConfig: secure})
	}
	t := &transport{dial: dial, timeout: dialTimeout, ioTimeout: max(readTimeout, ioTimeoutDefault),
		endpoints: map[place]*endpoint{}}
	if readTimeout < 0 {
		t.ioTimeout = -1
	}
	return t.connect
}

func setDefault(size *int, standard int) {
	if *size == 0 {
		*size = standard
	}
}

// quiet turns maintenance notifications off, unless configured: they are pushed to sockets, not to
// what shares them.
func quiet(config **maintnotifications.Config) {
	if *config == nil {
		*config = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	}
}
