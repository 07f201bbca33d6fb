package goredis

import (
	"context"
	"crypto/tls"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.tidemill.dev/client/internal/tlsfront"
)

// Every constructor has to carry the TLS configuration to the shared connection.
func TestConstructors_SpeakTLS(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	certificate, roots := tlsfront.SelfSigned(t)
	address := tlsfront.Start(t, s.address, &tls.Config{
		Certificates: []tls.Certificate{certificate},
	})
	// The name is given because go-redis takes it off an address that is not reached through a
	// node.
	trusted, unknown := &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"},
		&tls.Config{ServerName: "127.0.0.1"}
	clients := map[string]func(config *tls.Config) redis.UniversalClient{
		"NewClient": func(config *tls.Config) redis.UniversalClient {
			return NewClient(&redis.Options{Addr: address, TLSConfig: config, MaxRetries: -1})
		},
		"NewRing": func(config *tls.Config) redis.UniversalClient {
			return NewRing(&redis.RingOptions{
				Addrs: map[string]string{"one": address}, TLSConfig: config, MaxRetries: -1,
			})
		},
		"NewUniversalClient": func(config *tls.Config) redis.UniversalClient {
			return NewUniversalClient(&redis.UniversalOptions{
				Addrs: []string{address}, TLSConfig: config, MaxRetries: -1,
			})
		},
		"NewClusterClient": func(config *tls.Config) redis.UniversalClient {
			all := []redis.ClusterSlot{
				{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: address}}},
			}
			return NewClusterClient(&redis.ClusterOptions{TLSConfig: config, MaxRedirects: -1,
				ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
					return all, nil
				}})
		},
	}
	for name, create := range clients {
		t.Run(name, func(t *testing.T) {
			client := create(trusted)
			defer client.Close()
			exercise(t, client)
			stranger := create(unknown)
			defer stranger.Close()
			var refused *tls.CertificateVerificationError
			if err := stranger.Get(testContext(t), "key:1").Err(); err == nil ||
				(!errors.As(err, &refused) &&
					!strings.Contains(err.Error(), "ring shards are down")) {
				t.Error("an unknown authority:", err)
			}
		})
	}
}

func TestClient_UsesAUnixSocket(t *testing.T) {
	checkLeaks(t)
	path := filepath.Join(t.TempDir(), "s")
	s := startServer(t, "--unixsocket", path)
	for _, options := range []*redis.Options{{Network: "unix", Addr: path},
		{Addr: path, Network: "unix", DB: 3, ClientName: "worker"}} {
		client := NewClient(options)
		exercise(t, client)
		info, err := client.ClientInfo(testContext(t)).Result()
		if err != nil || info.DB != options.DB || info.Name != options.ClientName ||
			!strings.Contains(info.Addr, path) && !strings.Contains(info.LAddr, path) {
			t.Error(info, err)
		}
		client.Close()
	}
	if count := connections(t, s.plain(t)); count != 0 {
		t.Error("connections that did not use the socket:", count)
	}
}
