package goredis

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// startTLS ends TLS in front of a server and returns its address and who vouches for it.
func startTLS(t *testing.T, target string) (address string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(parsed)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				near.Close()
				continue
			}
			group.Go(func() { _, _ = io.Copy(far, near); far.Close() })
			group.Go(func() { _, _ = io.Copy(near, far); near.Close() })
		}
	})
	t.Cleanup(func() { listener.Close(); group.Wait() })
	return listener.Addr().String(), roots
}

// Every constructor has to carry the TLS configuration to the shared connection.
func TestConstructors_SpeakTLS(t *testing.T) {
	checkLeaks(t)
	s := startServer(t)
	address, roots := startTLS(t, s.address)
	// The name is given because go-redis takes it off an address that is not reached through a node.
	trusted, unknown := &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}, &tls.Config{ServerName: "127.0.0.1"}
	clients := map[string]func(config *tls.Config) redis.UniversalClient{
		"NewClient": func(config *tls.Config) redis.UniversalClient {
			return NewClient(&redis.Options{Addr: address, TLSConfig: config, MaxRetries: -1})
		},
		"NewRing": func(config *tls.Config) redis.UniversalClient {
			return NewRing(&redis.RingOptions{Addrs: map[string]string{"one": address}, TLSConfig: config, MaxRetries: -1})
		},
		"NewUniversalClient": func(config *tls.Config) redis.UniversalClient {
			return NewUniversalClient(&redis.UniversalOptions{Addrs: []string{address}, TLSConfig: config, MaxRetries: -1})
		},
		"NewClusterClient": func(config *tls.Config) redis.UniversalClient {
			all := []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: address}}}}
			return NewClusterClient(&redis.ClusterOptions{TLSConfig: config, MaxRedirects: -1,
				ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return all, nil }})
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
			if err := stranger.Get(testContext(t), "key:1").Err(); err == nil || (!errors.As(err, &refused) && !strings.Contains(err.Error(), "ring shards are down")) {
				t.Error("an unknown authority:", err)
			}
		})
	}
}

func TestClient_UsesAUnixSocket(t *testing.T) {
	checkLeaks(t)
	path := filepath.Join(t.TempDir(), "s")
	s := startServer(t, "--unixsocket", path)
	for _, options := range []*redis.Options{{Network: "unix", Addr: path}, {Addr: path, Network: "unix", DB: 3, ClientName: "worker"}} {
		client := NewClient(options)
		exercise(t, client)
		info, err := client.ClientInfo(testContext(t)).Result()
		if err != nil || info.DB != options.DB || info.Name != options.ClientName || !strings.Contains(info.Addr, path) && !strings.Contains(info.LAddr, path) {
			t.Error(info, err)
		}
		client.Close()
	}
	if count := connections(t, s.plain(t)); count != 0 {
		t.Error("connections that did not use the socket:", count)
	}
}
