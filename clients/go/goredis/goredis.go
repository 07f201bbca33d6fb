// Package goredis gives users of go-redis the implicit pipelining of go.tidemill.dev/client: they change
// the constructor and keep everything else, because what they get are go-redis's own clients.
//
//	rdb := goredis.NewClient(&redis.Options{Addr: "localhost:6379"})
//
// It works below go-redis, in the place of the socket: the connections in go-redis's pool are virtual and
// share one real one, on which the commands of all goroutines travel together. So every command, reply
// type, error, hook, retry and option of go-redis is go-redis's own. README.md tells what was compared
// with this, and what differs.
package goredis

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// poolSizeDefault is the number of virtual connections, that is of concurrent commands; go-redis's
	// own default is made for real ones and would keep commands from gathering.
	poolSizeDefault = 512
	// bufferBytesDefault is the size of go-redis's two buffers for each of them.
	bufferBytesDefault = 4 << 10

	dialTimeoutDefault = 5 * time.Second
	ioTimeoutDefault   = 10 * time.Second
)

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// NewClient is redis.NewClient on a shared pipelined connection. Options that are not set and concern
// pooled sockets take other defaults: PoolSize 512, buffers of 4 KiB, maintenance notifications off.
func NewClient(options *redis.Options) *redis.Client {
	own := *options
	if own.Dialer == nil {
		own.Dialer = netDialer(&redis.Options{DialTimeout: own.DialTimeout, TLSConfig: own.TLSConfig})
	}
	own.Dialer = share(own.Dialer, own.DialTimeout, own.ReadTimeout)
	pooled(&own.PoolSize, &own.ReadBufferSize, &own.WriteBufferSize)
	quiet(&own.MaintNotificationsConfig)
	return redis.NewClient(&own)
}

// NewClusterClient is redis.NewClusterClient with one shared pipelined connection for each node.
func NewClusterClient(options *redis.ClusterOptions) *redis.ClusterClient {
	own := *options
	if own.Dialer == nil {
		own.Dialer = netDialer(&redis.Options{DialTimeout: own.DialTimeout, TLSConfig: own.TLSConfig})
	}
	own.Dialer = share(own.Dialer, own.DialTimeout, own.ReadTimeout)
	pooled(&own.PoolSize, &own.ReadBufferSize, &own.WriteBufferSize)
	quiet(&own.MaintNotificationsConfig)
	return redis.NewClusterClient(&own)
}

// NewFailoverClient is redis.NewFailoverClient on a shared pipelined connection to the master.
func NewFailoverClient(options *redis.FailoverOptions) *redis.Client {
	return redis.NewFailoverClient(failover(options))
}

// NewFailoverClusterClient is redis.NewFailoverClusterClient with one shared pipelined connection for each
// server.
func NewFailoverClusterClient(options *redis.FailoverOptions) *redis.ClusterClient {
	return redis.NewFailoverClusterClient(failover(options))
}

func failover(options *redis.FailoverOptions) *redis.FailoverOptions {
	own := *options
	if own.Dialer == nil {
		own.Dialer = netDialer(&redis.Options{DialTimeout: own.DialTimeout, TLSConfig: own.TLSConfig})
	}
	own.Dialer = share(own.Dialer, own.DialTimeout, own.ReadTimeout)
	pooled(&own.PoolSize, &own.ReadBufferSize, &own.WriteBufferSize)
	return &own
}

// NewRing is redis.NewRing with one shared pipelined connection for each shard.
func NewRing(options *redis.RingOptions) *redis.Ring {
	own := *options
	if own.Dialer == nil {
		own.Dialer = netDialer(&redis.Options{DialTimeout: own.DialTimeout, TLSConfig: own.TLSConfig})
	}
	own.Dialer = share(own.Dialer, own.DialTimeout, own.ReadTimeout)
	pooled(&own.PoolSize, &own.ReadBufferSize, &own.WriteBufferSize)
	return redis.NewRing(&own)
}

// NewUniversalClient is redis.NewUniversalClient on shared pipelined connections.
func NewUniversalClient(options *redis.UniversalOptions) redis.UniversalClient {
	own := *options
	if own.Dialer == nil {
		own.Dialer = netDialer(&redis.Options{DialTimeout: own.DialTimeout, TLSConfig: own.TLSConfig})
	}
	own.Dialer = share(own.Dialer, own.DialTimeout, own.ReadTimeout)
	pooled(&own.PoolSize, &own.ReadBufferSize, &own.WriteBufferSize)
	quiet(&own.MaintNotificationsConfig)
	return redis.NewUniversalClient(&own)
}

// netDialer is the dialer that go-redis would use itself.
func netDialer(options *redis.Options) dialer {
	if options.DialTimeout == 0 {
		options.DialTimeout = dialTimeoutDefault
	}
	return redis.NewDialer(options)
}

// share puts virtual connections in front of what dial opens. A shared connection that sends nothing for
// the read timeout while replies are due, and at least for ten seconds, is closed.
func share(dial dialer, dialTimeout, readTimeout time.Duration) dialer {
	t := &transport{dial: dial, timeout: dialTimeout, ioTimeout: max(readTimeout, ioTimeoutDefault),
		endpoints: map[place]*endpoint{}}
	if t.timeout <= 0 {
		t.timeout = dialTimeoutDefault
	}
	if readTimeout < 0 {
		t.ioTimeout = -1
	}
	return t.connect
}

func pooled(poolSize, readBuffer, writeBuffer *int) {
	for size, standard := range map[*int]int{poolSize: poolSizeDefault, readBuffer: bufferBytesDefault, writeBuffer: bufferBytesDefault} {
		if *size == 0 {
			*size = standard
		}
	}
}

// quiet turns maintenance notifications off, unless configured: they are pushed to sockets, not to what
// shares them.
func quiet(config **maintnotifications.Config) {
	if *config == nil {
		*config = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	}
}
