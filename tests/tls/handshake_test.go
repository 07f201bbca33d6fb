package tls

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
)

func TestTLS_BothVersionsBothKeysAndThePlainPortShareTheData(t *testing.T) {
	keys := map[string]func(*testing.T) crypto.Signer{"ECDSA": newECDSA, "RSA": newRSA}
	for name, newKey := range keys {
		t.Run(name, func(t *testing.T) {
			trusted := newAuthority(t, "authority")
			server := startAs(t, trusted, trusted.issue(t, "server", tomorrow(), newKey(t)))
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				config := server.config()
				config.MinVersion, config.MaxVersion = version, version
				conn := server.mustDial(t, config)
				expect(t, conn, "OK", "SET", "key", tls.VersionName(version))
				expect(t, server.Dial(t), tls.VersionName(version), "GET", "key")
			}
			old := server.config()
			old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
			if _, err := server.dial(old); err == nil {
				t.Error("TLS 1.1 is let in")
			}
		})
	}
}

func TestTLS_ProtocolsAndCiphersAreThoseOfTheConfiguration(t *testing.T) {
	server := start(t, "--tls-protocols", "TLSv1.2", "--tls-ciphers",
		"ECDHE-ECDSA-CHACHA20-POLY1305")
	config := server.config()
	config.MinVersion = tls.VersionTLS13
	if _, err := server.dial(config); err == nil {
		t.Error("TLS 1.3 is let in")
	}
	socket, err := tls.Dial("tcp", server.address(), server.config())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	suite := tls.CipherSuiteName(socket.ConnectionState().CipherSuite)
	if !strings.Contains(suite, "CHACHA20") {
		t.Error(suite)
	}
}

func TestTLS_ClientCertificatesInThreeModes(t *testing.T) {
	trusted := newAuthority(t, "authority")
	foreign := newAuthority(t, "foreign")
	key := newECDSA(t)
	clients := map[string][]*identity{
		"none":    nil,
		"good":    {trusted.issue(t, "client", tomorrow(), key)},
		"expired": {trusted.issue(t, "client", time.Now().Add(-time.Hour), key)},
		"foreign": {foreign.issue(t, "client", tomorrow(), key)},
	}
	wanted := map[string]string{
		"yes": "good", "optional": "good none", "no": "good none expired foreign",
	}
	for mode, admitted := range wanted {
		t.Run(mode, func(t *testing.T) {
			own := trusted.issue(t, "server", tomorrow(), newECDSA(t))
			server := startAs(t, trusted, own, "--tls-auth-clients", mode)
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				for name, certificates := range clients {
					config := server.config(certificates...)
					config.MinVersion, config.MaxVersion = version, version
					// Go would keep one to itself whose authority the server does not name.
					config.GetClientCertificate = func(*tls.CertificateRequestInfo) (
						*tls.Certificate, error,
					) {
						if len(certificates) == 0 {
							return &tls.Certificate{}, nil
						}
						return &certificates[0].Certificate, nil
					}
					_, err := server.dial(config)
					if isAdmitted := strings.Contains(admitted, name); isAdmitted != (err == nil) {
						t.Errorf("%s, %s: %v", tls.VersionName(version), name, err)
					}
				}
			}
			hasLine := strings.Contains(server.Log(), "Error accepting a client connection: ")
			if hasLine != (mode != "no") {
				t.Errorf("the log of refused clients:\n%s", server.Log())
			}
		})
	}
}

// A self-signed certificate in tls-ca-cert-file connects as a client, as with OpenSSL: of who makes
// one certificate for all. One made for other uses, or that is not in the file, does not.
func TestTLS_SelfSignedAuthorityIsAClient(t *testing.T) {
	trusted := newAuthority(t, "authority")
	own := trusted.issue(t, "server", tomorrow(), newECDSA(t))
	text, err := os.ReadFile(trusted.file)
	if err != nil {
		t.Fatal(err)
	}
	clientAuth := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	serverAuth := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	cases := []struct {
		name       string
		uses       x509.KeyUsage
		extended   []x509.ExtKeyUsage
		isInFile   bool
		isAdmitted bool
	}{
		{"of all uses", 0, nil, true, true},
		{"of clients", x509.KeyUsageDigitalSignature, clientAuth, true, true},
		{"of signers", x509.KeyUsageCertSign, nil, true, false},
		{"of servers", 0, serverAuth, true, false},
		{"of somebody else", 0, nil, false, false},
	}
	clients := make([]tls.Certificate, len(cases))
	for index, c := range cases {
		key := newECDSA(t)
		template := &x509.Certificate{
			SerialNumber: nextSerial(), Subject: pkix.Name{CommonName: c.name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: tomorrow(),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: c.uses, ExtKeyUsage: c.extended,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		clients[index] = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
		if c.isInFile {
			block := &pem.Block{Type: "CERTIFICATE", Bytes: der}
			text = append(text, pem.EncodeToMemory(block)...)
		}
	}
	if err := os.WriteFile(trusted.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	server := startAs(t, trusted, own, "--tls-auth-clients", "yes")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for index, c := range cases {
			config := server.config()
			config.MinVersion, config.MaxVersion = version, version
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (
				*tls.Certificate, error,
			) {
				return &clients[index], nil
			}
			if _, err := server.dial(config); c.isAdmitted != (err == nil) {
				t.Errorf("%s, %s: %v", tls.VersionName(version), c.name, err)
			}
		}
	}
	// The key is proved: the certificate alone is known to everybody.
	stolen := server.config()
	stolen.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &tls.Certificate{
			Certificate: clients[0].Certificate, PrivateKey: newECDSA(t),
		}, nil
	}
	if _, err := server.dial(stolen); err == nil {
		t.Error("a certificate without its key is taken")
	}
}

func TestTLS_OtherProtocolsAreRefused(t *testing.T) {
	server := start(t)
	for _, sent := range []string{
		"*1\r\n$4\r\nPING\r\n", "PING\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"\x16\x03\x01\xff\xff" + strings.Repeat("x", 100), "\x80\x2e\x01\x03\x01", "\x00\x00\x00",
	} {
		socket, err := net.Dial("tcp", server.address())
		if err != nil {
			t.Fatal(err)
		}
		socket.Write([]byte(sent))
		socket.SetDeadline(time.Now().Add(30 * time.Second))
		answer, err := io.ReadAll(socket)
		socket.Close()
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			t.Errorf("%q is not refused", sent)
		}
		isText := sent[0] >= ' ' && sent[0] < 0x7f
		if isText != strings.HasPrefix(string(answer), "-ERR This port speaks TLS only\r\n") {
			t.Errorf("%q is answered %q", sent, answer)
		}
		if !isText && len(answer) > 0 && answer[0] != 21 {
			t.Errorf("%q is answered %q, which is no alert", sent, answer)
		}
	}
	if !strings.Contains(server.Log(), "the client does not speak TLS") {
		t.Error(server.Log())
	}
	server.mustDial(t, server.config())
}

func TestTLS_SessionsAreResumedUnlessConfiguredOtherwise(t *testing.T) {
	for _, caching := range []string{"yes", "no"} {
		server := start(t, "--tls-session-caching", caching)
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			config := server.config()
			config.MinVersion, config.MaxVersion = version, version
			config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			// With the reply to PING the ticket of TLS 1.3 has arrived.
			server.mustDial(t, config)
			second := server.mustDial(t, config).Conn.(*tls.Conn)
			// Go resumes sessions of TLS 1.2 by tickets alone, the server by session ids.
			wanted := caching == "yes" && version == tls.VersionTLS13
			if resumed := second.ConnectionState().DidResume; resumed != wanted {
				t.Errorf("caching %s, %s: resumed %v", caching, tls.VersionName(version), resumed)
			}
		}
	}
}

func TestTLS_HalfOpenHandshakesAreBounded(t *testing.T) {
	const limit, flood = 1024, 1400
	server := start(t, "--worker-threads", "1")
	before, _ := instance.ResidentBytes(server.PID)
	sockets := make([]net.Conn, flood)
	for index := range sockets {
		socket, err := net.Dial("tcp", server.address())
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		sockets[index] = socket
		// The beginning of a long message of a handshake, which never ends.
		record := "\x16\x03\x01\x40\x00\x01\x00\x7f\xf0" + strings.Repeat("x", 12_000)
		socket.Write([]byte(record))
		if index%100 == 0 {
			server.mustDial(t, server.config())
		}
	}
	// Behind all others on the one thread there is.
	server.mustDial(t, server.config())
	if pending := server.info(t, "tls_handshakes_pending"); pending > limit {
		t.Errorf("%d handshakes are pending", pending)
	}
	eventually(t, "the oldest make room", func() bool {
		return server.info(t, "tls_handshakes_dropped") >= flood-limit
	})
	after, _ := instance.ResidentBytes(server.PID)
	if grown := after - before; grown > 64<<20 {
		t.Errorf("they take %d bytes", grown)
	}
	server.mustDial(t, server.config())
	eventually(t, "their time is over", func() bool {
		return server.info(t, "tls_handshakes_pending") == 0
	})
	if clients := server.info(t, "connected_clients"); clients > 50 {
		t.Errorf("%d clients are connected", clients)
	}
	server.mustDial(t, server.config())
}

// TestTLS_FloodOfHandshakesLeavesNothingBehind has clients connect, with the dearest keys there
// are, and go away as fast as they can. Workers serve others meanwhile, and nothing is left behind.
func TestTLS_FloodOfHandshakesLeavesNothingBehind(t *testing.T) {
	const seconds, crowd = 2, 16
	trusted := newAuthority(t, "authority")
	server := startAs(t, trusted, trusted.issue(t, "server", tomorrow(), newRSA(t)),
		"--worker-threads", "1")
	conn := server.mustDial(t, server.config())
	before, _ := instance.ResidentBytes(server.PID)
	end := time.Now().Add(seconds * time.Second)
	var done atomic.Int64
	var flood sync.WaitGroup
	for range crowd {
		flood.Go(func() {
			for time.Now().Before(end) {
				if socket, err := tls.Dial("tcp", server.address(), server.config()); err == nil {
					done.Add(1)
					socket.Close()
				}
			}
		})
	}
	var pings int
	var longest time.Duration
	for time.Now().Before(end) {
		begun := time.Now()
		expect(t, conn, "PONG", "PING")
		pings, longest = pings+1, max(longest, time.Since(begun))
	}
	flood.Wait()
	t.Logf("%d handshakes, %d pings beside them, the longest %v", done.Load(), pings, longest)
	if done.Load() < crowd {
		t.Errorf("only %d handshakes were completed", done.Load())
	}
	if longest > time.Second {
		t.Errorf("a ping took %v beside %d handshakes", longest, done.Load())
	}
	eventually(t, "all of them are gone", func() bool {
		// This connection and that of INFO.
		return server.info(t, "connected_clients") <= 2 &&
			server.info(t, "tls_handshakes_pending") == 0
	})
	after, _ := instance.ResidentBytes(server.PID)
	if grown := after - before; grown > 32<<20 {
		t.Errorf("%d bytes are left of them", grown)
	}
}

func TestTLS_HandshakesCountAsClients(t *testing.T) {
	server := start(t, "--maxclients", "20")
	var sockets []net.Conn
	for range 40 {
		socket, err := net.Dial("tcp", server.address())
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		sockets = append(sockets, socket)
	}
	eventually(t, "the others are refused", func() bool {
		_, err := server.dial(server.config())
		return err != nil
	})
	for _, socket := range sockets {
		socket.Close()
	}
	eventually(t, "their places are free", func() bool {
		conn, err := server.dial(server.config())
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	for range 19 {
		server.mustDial(t, server.config())
	}
}

// TestTLS_ProtectedModeHoldsOverTLS connects from an address of this host that is not a loopback
// one: such a client is told why it is not served, as on the plain port.
func TestTLS_ProtectedModeHoldsOverTLS(t *testing.T) {
	own := ownAddress()
	if own == nil {
		t.Skip("this host has no address but loopback ones")
	}
	server := start(t, "--bind", "0.0.0.0", "--protected-mode", "yes")
	address := net.JoinHostPort(own.String(), strconv.Itoa(server.port))
	socket, err := tls.Dial("tcp", address, server.config())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	_ = socket.SetReadDeadline(time.Now().Add(30 * time.Second))
	told, err := io.ReadAll(socket)
	if err != nil || !strings.HasPrefix(string(told), "-DENIED Running in protected mode") {
		t.Errorf("a client of another host is told %q, %v", told, err)
	}
	expect(t, server.mustDial(t, server.config()), "PONG", "PING")
}

// ownAddress returns an address of this host that is no loopback one.
func ownAddress() net.IP {
	addresses, _ := net.InterfaceAddrs()
	for _, each := range addresses {
		if network, is := each.(*net.IPNet); is && network.IP.To4() != nil &&
			!network.IP.IsLoopback() {
			return network.IP
		}
	}
	return nil
}
