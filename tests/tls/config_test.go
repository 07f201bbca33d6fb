package tls

import (
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// shown is the serial number of the certificate that the server shows now.
func (s *server) shown(t *testing.T) string {
	t.Helper()
	socket, err := tls.Dial("tcp", s.address(), s.config())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	return socket.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	contents, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, contents, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestTLS_ConfigSetReloadsOrChangesNothing(t *testing.T) {
	server := start(t)
	control := server.Dial(t)
	first := server.shown(t)
	old := server.mustDial(t, server.config())
	next := server.authority.issue(t, "server", tomorrow(), newECDSA(t))
	broken := filepath.Join(t.TempDir(), "broken.pem")
	const noCertificate = "-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n"
	os.WriteFile(broken, []byte(noCertificate), 0o600)
	expired := server.authority.issue(t, "server", time.Now().Add(-time.Hour), newECDSA(t))
	for _, wrong := range [][]string{
		{"tls-cert-file", broken}, {"tls-cert-file", "/no/such/file"},
		{"tls-cert-file", next.certificateFile}, {"tls-key-file", next.keyFile},
		{"tls-cert-file", expired.certificateFile, "tls-key-file", expired.keyFile},
		{"tls-ca-cert-file", broken}, {"tls-ca-cert-dir", "/no/such/directory"},
		{"tls-protocols", "TLSv1.1"}, {"tls-ciphers", "RC4-MD5"}, {"tls-ciphersuites", "NONE"},
	} {
		reply := do(t, control, append([]string{"CONFIG", "SET"}, wrong...)...)
		if text := reply.String(); !strings.Contains(text, "Unable to update TLS configuration") {
			t.Errorf("%v: %s", wrong, text)
		}
		if server.shown(t) != first {
			t.Errorf("%v changed the certificate", wrong)
		}
		value := do(t, control, "CONFIG", "GET", wrong[0]).Items[1]
		if string(value.Text) == wrong[1] {
			t.Errorf("%v is shown", wrong)
		}
	}
	expect(t, control, "OK", "CONFIG", "SET", "tls-cert-file", next.certificateFile,
		"tls-key-file", next.keyFile)
	second := server.shown(t)
	if second == first {
		t.Error("the old certificate is still shown")
	}
	expect(t, old, "PONG", "PING")
	// The same names again: the contents have changed.
	third := server.authority.issue(t, "server", tomorrow(), newRSA(t))
	copyFile(t, third.certificateFile, next.certificateFile)
	copyFile(t, third.keyFile, next.keyFile)
	expect(t, control, "OK", "CONFIG", "SET", "tls-cert-file", next.certificateFile)
	if server.shown(t) == second {
		t.Error("the same files were not read again")
	}
	info := do(t, control, "INFO", "tls").String()
	if !strings.Contains(info, "tls_server_cert_serial:01020304") {
		t.Error(info)
	}
}

// The certificate for outgoing connections is told of, and taken up like the others.
func TestTLS_InfoTellsOfTheCertificateForOutgoingConnections(t *testing.T) {
	server := start(t, "--tls-auto-reload-interval", "1")
	control := server.Dial(t)
	told := func(what string) string {
		for _, line := range strings.Split(string(do(t, control, "INFO", "tls").Text), "\r\n") {
			if value, is := strings.CutPrefix(line, "tls_client_cert_"+what+":"); is {
				return value
			}
		}
		return "missing"
	}
	if serial, left := told("serial"), told("expires_in_seconds"); serial != "none" || left != "0" {
		t.Errorf("%s, %s without one", serial, left)
	}
	own := server.authority.issue(t, "client", time.Now().Add(time.Hour), newECDSA(t))
	set := []string{"CONFIG", "SET", "tls-client-cert-file"}
	for _, wrong := range []string{"/nowhere", own.keyFile} {
		if reply := do(t, control, append(set, wrong)...); !reply.IsError() {
			t.Errorf("%s: %s", wrong, reply)
		}
	}
	expect(t, control, "OK", append(set, own.certificateFile)...)
	first := told("serial")
	if left, err := strconv.Atoi(told("expires_in_seconds")); err != nil || left < 3000 ||
		left > 3600 || len(first) < 8 {
		t.Errorf("serial %s, %d s left, %v", first, left, err)
	}
	next := server.authority.issue(t, "client", time.Now().Add(time.Hour), newECDSA(t))
	copyFile(t, next.certificateFile, own.certificateFile)
	eventually(t, "it is taken up", func() bool { return told("serial") != first })
}

func TestTLS_ChangedFilesAreTakenUpByThemselves(t *testing.T) {
	server := start(t, "--tls-auto-reload-interval", "1")
	first := server.shown(t)
	next := server.authority.issue(t, "server", tomorrow(), newECDSA(t))
	// For a moment certificate and key do not belong together.
	copyFile(t, next.certificateFile, server.identity.certificateFile)
	time.Sleep(1500 * time.Millisecond)
	if server.shown(t) != first {
		t.Error("a certificate without its key is in force")
	}
	copyFile(t, next.keyFile, server.identity.keyFile)
	eventually(t, "they are taken up", func() bool { return server.shown(t) != first })
}

func TestTLS_PortsComeGoAndChangePlaces(t *testing.T) {
	server := start(t)
	control := server.mustDial(t, server.config())
	tlsPort, plainPort := strconv.Itoa(server.port), strconv.Itoa(server.Port)
	expect(t, control, "OK", "CONFIG", "SET", "port", "0")
	if conn, err := wire.Dial(server.Address); err == nil {
		conn.Close()
		t.Error("the plain port is open")
	}
	expect(t, control, "OK", "CONFIG", "SET", "port", tlsPort, "tls-port", plainPort)
	plain, err := wire.Dial(server.address())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, plain, "PONG", "PING")
	if _, err := tls.Dial("tcp", server.Address, server.config()); err != nil {
		t.Error(err)
	}
	expect(t, plain, "OK", "CONFIG", "SET", "tls-port", "0", "port", plainPort)
	if _, err := server.dial(server.config()); err == nil {
		t.Error("the port for TLS is open")
	}
	expect(t, control, "PONG", "PING")
	// Without a port, files are not looked at; with one, they are.
	expect(t, control, "OK", "CONFIG", "SET", "tls-cert-file", "/no/such/file")
	expect(t, control, "Unable to update TLS configuration", "CONFIG", "SET", "tls-port", tlsPort)
	expect(t, control, "OK", "CONFIG", "SET", "tls-cert-file", server.identity.certificateFile,
		"tls-port", tlsPort)
	server.mustDial(t, server.config())
	expect(t, control, "Unable to listen on this port", "CONFIG", "SET", "tls-port", plainPort)
	server.mustDial(t, server.config())
}

func TestTLS_WrongConfigurationStopsTheStart(t *testing.T) {
	trusted := newAuthority(t, "authority")
	own := trusted.issue(t, "server", tomorrow(), newECDSA(t))
	files := []string{"--tls-cert-file", own.certificateFile, "--tls-key-file", own.keyFile}
	for reason, directives := range map[string][]string{
		"No tls-cert-file configured!": nil,
		"Either tls-ca-cert-file":      files,
		"is not offered": append(files, "--tls-auth-clients", "no", "--tls-protocols",
			"TLSv1"),
	} {
		port, err := instance.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		all := append([]string{"--tls-port", strconv.Itoa(port)}, directives...)
		output, err := instance.Command(instance.Subject, 0, all...).CombinedOutput()
		if err == nil || !strings.Contains(string(output), reason) {
			t.Errorf("%v: %v\n%s", directives, err, output)
		}
	}
}

func TestTLS_EncryptedKeyNeedsItsPassword(t *testing.T) {
	trusted := newAuthority(t, "authority")
	own := trusted.issue(t, "server", tomorrow(), newECDSA(t))
	for _, arguments := range [][]string{{"-v2", "aes256"}, {"-scrypt"}} {
		encrypted := filepath.Join(t.TempDir(), "encrypted.pem")
		all := append([]string{"pkcs8", "-topk8", "-in", own.keyFile, "-out", encrypted,
			"-passout", "pass:word"}, arguments...)
		if output, err := exec.Command("openssl", all...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		server := startAs(t, trusted, own, "--tls-key-file", encrypted, "--tls-key-file-pass",
			"word")
		server.mustDial(t, server.config())
		expect(t, server.Dial(t), "Unable to update", "CONFIG", "SET", "tls-key-file-pass", "other")
		if !strings.Contains(server.Log(), "the password may be wrong") {
			t.Error(server.Log())
		}
	}
}

func TestTLS_CertificateNamesTheUser(t *testing.T) {
	trusted := newAuthority(t, "authority")
	own := trusted.issue(t, "server", tomorrow(), newECDSA(t))
	server := startAs(t, trusted, own, "--tls-auth-clients", "optional")
	control := server.Dial(t)
	do(t, control, "ACL", "SETUSER", "alice", "on", "allcommands")
	do(t, control, "ACL", "SETUSER", "urn:app:bob", "on", "allcommands")
	alice := trusted.issue(t, "alice", tomorrow(), newECDSA(t), "urn:app:nobody", "urn:app:bob")
	stranger := trusted.issue(t, "stranger", tomorrow(), newECDSA(t), "urn:app:stranger")
	// Read up to the NUL byte it would be another one.
	cut := trusted.issue(t, "alice\x00mallory", tomorrow(), newECDSA(t))
	long := trusted.issue(t, strings.Repeat("x", 300)+"\x00", tomorrow(), newECDSA(t))
	do(t, control, "ACL", "SETUSER", strings.Repeat("x", 255), "on", "allcommands")
	for _, step := range []struct {
		field             string
		certificates      []*identity
		user, deniedNames string
	}{
		{"off", []*identity{alice}, "default", ""},
		{"CN", []*identity{alice}, "alice", ""},
		{"URI", []*identity{alice}, "urn:app:bob", ""},
		{"CN", nil, "default", ""},
		{"CN", []*identity{stranger}, "default", "stranger"},
		{"URI", []*identity{stranger}, "default", "urn:app:stranger"},
		{"CN", []*identity{cut}, "default", "alice"},
		{"CN", []*identity{long}, "default", "xxx"},
	} {
		do(t, control, "ACL", "LOG", "RESET")
		before := server.info(t, "acl_access_denied_tls_cert")
		expect(t, control, "OK", "CONFIG", "SET", "tls-auth-clients-user", step.field)
		conn := server.mustDial(t, server.config(step.certificates...))
		expect(t, conn, step.user, "ACL", "WHOAMI")
		denied := server.info(t, "acl_access_denied_tls_cert") - before
		text := do(t, control, "ACL", "LOG").String()
		isDenied := strings.Contains(text, "tls-cert") && strings.Contains(text, step.deniedNames)
		if wanted := step.deniedNames != ""; (denied == 1) != wanted || isDenied != wanted {
			t.Errorf("%+v: %d denied, %s", step, denied, text)
		}
	}
	// One who is off is none; a default user who needs a password stays outside.
	do(t, control, "ACL", "SETUSER", "alice", "off")
	do(t, control, "CONFIG", "SET", "tls-auth-clients-user", "CN")
	expect(t, server.mustDial(t, server.config(alice)), "default", "ACL", "WHOAMI")
	do(t, control, "ACL", "SETUSER", "alice", "on")
	do(t, control, "CONFIG", "SET", "requirepass", "secret")
	expect(t, server.mustDial(t, server.config(alice)), "alice", "ACL", "WHOAMI")
	expect(t, server.mustDial(t, server.config()), "NOAUTH", "ACL", "WHOAMI")
}

// Connections that keep one worker busy move to the other with all that they have going on.
func TestTLS_ConnectionsMoveBetweenWorkers(t *testing.T) {
	server := start(t, "--worker-threads", "2")
	control := server.Dial(t)
	do(t, control, "SET", "bits", strings.Repeat("\x00", 1<<20)+"\x01")
	var conns []*wire.Conn
	for range 6 {
		conns = append(conns, server.mustDial(t, server.config()))
	}
	// Only every second one works, so that they are of one worker, or unevenly divided.
	var stop atomic.Bool
	var clients sync.WaitGroup
	for number, conn := range conns {
		if number%2 == 1 {
			continue
		}
		clients.Go(func() {
			for count := 1; !stop.Load(); count++ {
				batch := fmt.Sprintf("INCR %d\r\n", number) +
					strings.Repeat("BITCOUNT bits\r\n", 20)
				if err := conn.SendRaw([]byte(batch)); err != nil {
					t.Error(err)
					return
				}
				for position := range 21 {
					reply, err := conn.Receive()
					if err != nil || position == 0 && reply.Int() != int64(count) {
						t.Error(reply, err)
						return
					}
				}
			}
		})
	}
	eventually(t, "some have moved", func() bool {
		for _, worker := range strings.Split(do(t, control, "INFO", "workers").String(), "\n") {
			if _, moved, found := strings.Cut(worker, "moved="); found &&
				strings.TrimRight(moved, "\r\"") != "0" {
				return true
			}
		}
		return false
	})
	stop.Store(true)
	clients.Wait()
	for _, conn := range conns {
		expect(t, conn, "PONG", "PING")
	}
}

func TestTLS_AuthoritiesAreTakenFromADirectory(t *testing.T) {
	directory := t.TempDir()
	inside, another := newAuthority(t, "inside"), newAuthority(t, "another")
	copyFile(t, inside.file, filepath.Join(directory, "inside.crt"))
	os.WriteFile(filepath.Join(directory, "README"), []byte("no certificate\n"), 0o600)
	server := start(t, "--tls-ca-cert-file", "", "--tls-ca-cert-dir", directory,
		"--tls-auth-clients", "yes")
	good := inside.issue(t, "client", tomorrow(), newECDSA(t))
	bad := another.issue(t, "client", tomorrow(), newECDSA(t))
	expect(t, server.mustDial(t, server.config(good)), "PONG", "PING")
	if _, err := server.dial(server.config(bad)); err == nil {
		t.Error("a certificate of an unknown authority is accepted")
	}
	// Another file comes, and counts once the directory is read again.
	copyFile(t, another.file, filepath.Join(directory, "another.crt"))
	expect(t, server.Dial(t), "OK", "CONFIG", "SET", "tls-ca-cert-dir", directory)
	expect(t, server.mustDial(t, server.config(bad)), "PONG", "PING")
}

func TestTLS_ConfigRewriteKeepsWhatWasSet(t *testing.T) {
	trusted := newAuthority(t, "authority")
	own := trusted.issue(t, "server", tomorrow(), newECDSA(t))
	file := filepath.Join(t.TempDir(), "tidemill.conf")
	text := "tls-auth-clients yes\ntls-cert-file " + own.certificateFile + "\ntls-key-file " +
		own.keyFile + "\ntls-ca-cert-file " + trusted.file + "\ntls-protocols \"TLSv1.2\"\n"
	os.WriteFile(file, []byte(text), 0o600)
	begin := func(tlsPort string) *wire.Conn {
		port, err := instance.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		command := instance.Command(instance.Subject, port)
		// The file comes first.
		rest := append([]string{file}, command.Args[2:]...)
		command.Args = append(command.Args[:2:2], append(rest, "--tls-port", tlsPort)...)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = command.Process.Kill()
			_ = command.Wait()
		})
		var conn *wire.Conn
		eventually(t, "the server to answer", func() bool {
			conn, err = wire.Dial(fmt.Sprintf("127.0.0.1:%d", port))
			return err == nil
		})
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	tlsPort, err := instance.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	first := begin(strconv.Itoa(tlsPort))
	next := trusted.issue(t, "server", tomorrow(), newECDSA(t))
	names := []string{
		"tls-cert-file", "tls-key-file", "tls-auth-clients", "tls-protocols",
		"tls-session-cache-size",
	}
	values := []string{
		next.certificateFile, next.keyFile, "optional", "TLSv1.2 TLSv1.3", "77",
	}
	call := []string{"CONFIG", "SET"}
	for index, name := range names {
		call = append(call, name, values[index])
	}
	expect(t, first, "OK", call...)
	expect(t, first, "OK", "CONFIG", "REWRITE")
	other, err := instance.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	second := begin(strconv.Itoa(other))
	for index, name := range names {
		items := do(t, second, "CONFIG", "GET", name).Items
		if len(items) != 2 || string(items[1].Text) != values[index] {
			t.Errorf("%s is %v instead of %s", name, items, values[index])
		}
	}
}
