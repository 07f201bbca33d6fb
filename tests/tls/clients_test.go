package tls

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	client "go.tidemill.dev/client"

	"tidemill/tests/internal/instance"
)

// startForClients runs a server that requires certificates, and returns one.
func startForClients(t *testing.T) (*server, *identity) {
	t.Helper()
	trusted := newAuthority(t, "authority")
	own := trusted.issue(t, "server", tomorrow(), newRSA(t))
	server := startAs(t, trusted, own, "--tls-auth-clients", "yes")
	return server, trusted.issue(t, "client", tomorrow(), newECDSA(t))
}

// run runs a program and checks what it prints.
func run(t *testing.T, want, program string, arguments ...string) {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), program, arguments...).CombinedOutput()
	if err != nil || !strings.Contains(string(output), want) {
		t.Errorf("%s %v: %v\n%s", program, arguments, err, output)
	}
}

func TestTLS_RedisCliConnects(t *testing.T) {
	server, own := startForClients(t)
	run(t, "PONG", "redis-cli", "-p", strconv.Itoa(server.port), "--tls", "--cacert",
		server.authority.file, "--cert", own.certificateFile, "--key", own.keyFile, "PING")
}

func TestTLS_RedisPyConnects(t *testing.T) {
	server, own := startForClients(t)
	python := filepath.Join(instance.Root(), "build", "tools", "python", "bin", "python")
	run(t, "all passed", python, "redis_py_tls.py", strconv.Itoa(server.port),
		server.authority.file, own.certificateFile, own.keyFile)
}

func TestTLS_GoRedisConnects(t *testing.T) {
	server, own := startForClients(t)
	ctx := t.Context()
	peer := redis.NewClient(&redis.Options{Addr: server.address(), TLSConfig: server.config(own)})
	defer peer.Close()
	replies, err := peer.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := range 1000 {
			pipe.Set(ctx, strconv.Itoa(number), number, 0)
		}
		return nil
	})
	if err != nil || len(replies) != 1000 {
		t.Errorf("%d replies, %v", len(replies), err)
	}
}

func TestTLS_OwnClientConnects(t *testing.T) {
	server, own := startForClients(t)
	peer, err := client.New(client.Options{Address: server.address(), TLS: server.config(own)})
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	if text, err := peer.Do(t.Context(), "ECHO", "hello").Text(); err != nil || text != "hello" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestTLS_LoadGeneratorConnects(t *testing.T) {
	if !instance.SubjectIsTidemill() {
		t.Skip("the load generator is part of the binary")
	}
	server, own := startForClients(t)
	for _, version := range []string{"TLSv1.2", "TLSv1.3"} {
		binary := instance.Binary(instance.Subject)
		run(t, "", binary, "bench", "-p", strconv.Itoa(server.port), "--tls",
			"--cacert", server.authority.file, "--sni", "localhost", "--tls-protocols", version,
			"--cert", own.certificateFile, "--key", own.keyFile, "-n", "2000", "--pipeline", "100")
	}
	if processed := server.info(t, "total_commands_processed"); processed < 4000 {
		t.Errorf("%d commands were processed", processed)
	}
}

// A server's own certificate in --cacert is trusted, as by OpenSSL, for its names and its time.
func TestTLS_LoadGeneratorTrustsASelfSignedServer(t *testing.T) {
	if !instance.SubjectIsTidemill() {
		t.Skip("the load generator is part of the binary")
	}
	key := newECDSA(t)
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: nextSerial(), Subject: pkix.Name{CommonName: "server"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: tomorrow(),
		IsCA: true, BasicConstraintsValid: true, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	own := &identity{
		certificateFile: filepath.Join(t.TempDir(), "certificate.pem"),
		keyFile:         filepath.Join(t.TempDir(), "key.pem"),
	}
	writePEM(t, own.certificateFile, "CERTIFICATE", der)
	writePEM(t, own.keyFile, "PRIVATE KEY", encoded)
	server := startAs(t, &authority{file: own.certificateFile}, own)
	other := newAuthority(t, "other")
	for _, c := range []struct {
		authority, name string
		isTrusted       bool
	}{
		{own.certificateFile, "localhost", true},
		{own.certificateFile, "elsewhere", false},
		{other.file, "localhost", false},
	} {
		command := exec.Command(instance.Binary(instance.Subject), "bench", "-p",
			strconv.Itoa(server.port), "--tls", "--cacert", c.authority, "--sni", c.name,
			"-n", "100", "-c", "1")
		output, err := command.CombinedOutput()
		if (err == nil) != c.isTrusted {
			t.Errorf("%+v: %v:\n%s", c, err, output)
		}
	}
}
