package tidemill

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Options configure a client. The zero value of every field is a sensible default, given in
// brackets.
type Options struct {
	// Address is "host:port", or the path of a Unix socket ("/run/valkey.sock") ["127.0.0.1:6379"].
	Address string
	// Username and Password authenticate, if one of them is set; Username "" means the default
	// user, Password "" is for users without one.
	Username string
	Password string
	// Credentials, when set, is asked before each connection, for tokens that are refreshed.
	Credentials func(ctx context.Context) (username, password string, err error)
	// Name is given to CLIENT SETNAME [none].
	Name string
	// Database is selected on each connection [0].
	Database int
	// TLS enables TLS, at least version 1.2.
	TLS *tls.Config
	// Dialer replaces net.Dialer; TLS is put on top of what it returns.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)
	// ForceRESP2 skips HELLO. Without it RESP3 is tried and a refusal accepted.
	ForceRESP2 bool

	// DialTimeout bounds connecting and the handshake [5s].
	DialTimeout time.Duration
	// IOTimeout closes a connection that sends nothing for so long while replies are due [10s];
	// negative: never. Blocking commands have connections without it.
	IOTimeout time.Duration
	// ConnectWait is how long a request waits for a connection to come back before it fails as not
	// sent, if its context allows; in clusters and behind sentinels, how long it follows changes
	// [3s; 15s].
	ConnectWait time.Duration
	// PingInterval is how long a connection is unused before it is probed [30s]; negative: never.
	PingInterval time.Duration
	// BackoffMin and BackoffMax bound the jittered, doubling pause between attempts to connect,
	// also where connections are made and soon lost again [8ms, 1s].
	BackoffMin, BackoffMax time.Duration

	// MaxPending bounds the requests of one pipe that are queued or in flight; callers above it
	// wait [16384].
	MaxPending int
	// MaxGatherDelay replaces the time that a flush waits when company is expected [60µs];
	// negative: never wait, only batch what is there.
	MaxGatherDelay time.Duration
	// NoRetry turns off the repetition of reads whose outcome is unknown. What was not sent is
	// always repeated, writes never are unless marked by [WithIdempotent].
	NoRetry bool

	// ReadFrom says which nodes of a cluster answer commands that only read [ReadPrimary]. Replicas
	// lag behind: what was just written may be missing there. Ignored outside of clusters.
	ReadFrom ReadPolicy
	// Zone is the availability zone of this process, for ReadSameZone, as servers report it
	// (availability_zone in INFO, Valkey 8.1).
	Zone string

	// Cache turns on client-side caching for what is asked for through Cached; it needs RESP3
	// [none]. The shared connection then always has a reader, so that a lone caller does not read
	// by itself.
	Cache *CacheOptions

	// Sentinel says how sentinels are talked to; see [NewSentinel].
	Sentinel SentinelOptions

	// Logger receives rare events: lost and restored connections, topology changes [none].
	Logger *slog.Logger
	// Hook observes every operation; see [Hook].
	Hook Hook
}

func (o Options) withDefaults() *Options {
	setDefault(&o.Address, "127.0.0.1:6379")
	setDefault(&o.DialTimeout, defaultDialTimeout)
	setDefault(&o.IOTimeout, defaultIOTimeout)
	setDefault(&o.ConnectWait, defaultConnectWait)
	setDefault(&o.PingInterval, defaultPingInterval)
	setDefault(&o.BackoffMin, defaultBackoffMin)
	setDefault(&o.BackoffMax, defaultBackoffMax)
	setDefault(&o.MaxPending, queueRequestsDefault)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (o *Options) check() error {
	if o.MaxPending < 0 || o.DialTimeout < 0 || o.ConnectWait < 0 || o.Database < 0 ||
		o.BackoffMin < 0 || o.BackoffMax < 0 {
		return fmt.Errorf("%w: negative option", ErrArgument)
	}
	if o.Cache != nil && (o.ForceRESP2 || o.Cache.MaxBytes < 0 || o.Cache.TTL < 0) {
		return fmt.Errorf("%w: caching needs RESP3 and limits that are not negative", ErrArgument)
	}
	if o.ReadFrom > ReadSameZone || (o.ReadFrom == ReadSameZone && o.Zone == "") {
		return fmt.Errorf("%w: unknown read policy, or ReadSameZone without Zone", ErrArgument)
	}
	return nil
}
