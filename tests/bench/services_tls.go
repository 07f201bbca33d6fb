package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	tlsLoads           = "GET over TLS"
	idleTLSConnections = 1_000
	idleTLSBytesMax    = 8 << 10
)

// tlsLimits are the most CPU per GET over TLS that is wanted, Valkey's over TLS as 1.
var tlsLimits = []struct {
	pipeline int
	limit    float64
}{{1, 0.80}, {100, 0.35}}

// tlsContender is a server with a port for TLS beside its plain one.
type tlsContender struct {
	contender
	port int
}

// measureTLS compares GETs over TLS with those of servers that have it. Valkey's packages do not
// all have it: without it, Redis of the distribution takes its place, and its figures and those
// of our own plain port are told and not judged.
func measureTLS(report *Report, chosen settings) error {
	directory, err := os.MkdirTemp(buildDirectory(), "tls-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	if err := writeCertificate(directory); err != nil {
		return err
	}
	var started []tlsContender
	defer func() {
		for _, each := range started {
			_ = each.server.Stop()
		}
	}()
	for _, c := range []contender{
		{name: "tidemill", kind: instance.Subject, directives: tidemillDirectives(1)},
		{name: "valkey", kind: instance.Valkey},
		{name: "redis", kind: instance.Redis},
	} {
		one, err := startTLS(directory, c)
		if err != nil && c.kind != instance.Subject &&
			strings.Contains(err.Error(), "Failed finding TLS support") {
			fmt.Fprintf(os.Stderr, "bench: this %s has no TLS\n", c.name)
			continue
		}
		if err != nil {
			return fmt.Errorf("start %s with TLS: %w", c.name, err)
		}
		started = append(started, one)
		if err := sendAll(one.server, eachKey(setServiceKey)); err != nil {
			return err
		}
	}
	for _, each := range tlsLimits {
		if err := measureTLSGets(report, chosen, started, each.pipeline, each.limit); err != nil {
			return err
		}
	}
	return measureIdleTLS(report, started[0])
}

func startTLS(directory string, c contender) (tlsContender, error) {
	own, err := os.MkdirTemp(directory, c.name)
	if err != nil {
		return tlsContender{}, err
	}
	certificate := filepath.Join(directory, "server.crt")
	c.directives = append([]string{
		"--tls-port", instance.OtherPort, "--tls-cert-file", certificate,
		"--tls-key-file", filepath.Join(directory, "server.key"),
		"--tls-ca-cert-file", certificate, "--tls-auth-clients", "no",
	}, c.directives...)
	c.server, err = instance.LaunchOn(serverCPU, c.kind, own, c.directives...)
	if err != nil {
		return tlsContender{}, err
	}
	return tlsContender{c, c.server.OtherPort}, nil
}

// writeCertificate makes a certificate of this host that is its own authority.
func writeCertificate(directory string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name, kind string
		der        []byte
	}{{"server.crt", "CERTIFICATE", certificate}, {"server.key", "PRIVATE KEY", private}} {
		text := pem.EncodeToMemory(&pem.Block{Type: file.kind, Bytes: file.der})
		if err := os.WriteFile(filepath.Join(directory, file.name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func measureTLSGets(
	report *Report, chosen settings, started []tlsContender, pipeline int, limit float64,
) error {
	name := fmt.Sprintf("GET over TLS, pipeline %d", pipeline)
	const plain = "tidemill, plain"
	for round := range chosen.PartRounds {
		for turn := range started {
			c := started[(round+turn)%len(started)]
			sample, err := c.gets(c.port, pipeline, chosen.Seconds/2, "--tls", "--tls-skip-verify")
			if err != nil {
				return fmt.Errorf("%s: %s: %w", name, c.name, err)
			}
			report.add(name, c.name, sample)
		}
		sample, err := started[0].gets(started[0].server.Port, pipeline, chosen.Seconds/2)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", name, plain, err)
		}
		report.add(name, plain, sample)
	}
	if report.series(name, "valkey") != nil {
		report.verdict(name+": CPU / Valkey's", limit,
			report.ratio(name, "tidemill", "valkey", Sample.TotalUs))
	} else if report.series(name, "redis") != nil {
		report.tell(name+": CPU / that of Redis", limit,
			report.ratio(name, "tidemill", "redis", Sample.TotalUs))
	}
	report.addFigure(name+": CPU / that of our plain port", "tidemill",
		report.ratio(name, "tidemill", plain, Sample.TotalUs).median)
	return nil
}

// gets runs the project's load generator, which speaks TLS, against one port of a server.
func (c tlsContender) gets(
	port, pipeline int, seconds float64, flags ...string,
) (sample Sample, err error) {
	conn, err := wire.Dial(c.server.Address)
	if err != nil {
		return sample, err
	}
	defer conn.Close()
	before, err := infoOf(conn)
	if err != nil {
		return sample, err
	}
	userBefore, systemBefore, err := instance.CPUTime(c.server.PID)
	if err != nil {
		return sample, err
	}
	began := time.Now()
	arguments := append([]string{"-c", loadCPU, instance.Binary(instance.Subject), "bench",
		"-h", "127.0.0.1", "-p", strconv.Itoa(port), "-t", "1",
		"-c", strconv.Itoa(smallConnectionCount), "--pipeline", strconv.Itoa(pipeline),
		"--window", "batch", "--ratio", "0:1", "--key-prefix", "key:",
		"--key-minimum", strconv.Itoa(firstServiceKey),
		"--key-maximum", strconv.Itoa(firstServiceKey + serviceKeys - 1), "--hide-histogram",
		"--test-time", strconv.FormatFloat(seconds, 'f', 3, 64)}, flags...)
	if output, err := exec.Command("taskset", arguments...).CombinedOutput(); err != nil {
		return sample, fmt.Errorf("tidemill bench: %w\n%s", err, output)
	}
	sample.Seconds = time.Since(began).Seconds()
	userAfter, systemAfter, err := instance.CPUTime(c.server.PID)
	if err != nil {
		return sample, err
	}
	after, err := infoOf(conn)
	if err != nil {
		return sample, err
	}
	grown := func(field string) int64 { return int64(after[field] - before[field]) }
	sample.Operations = grown("total_commands_processed")
	sample.Hits, sample.Misses = grown("keyspace_hits"), grown("keyspace_misses")
	if sample.Operations == 0 || sample.Hits == 0 {
		return sample, fmt.Errorf("%d commands, %d hits", sample.Operations, sample.Hits)
	}
	perOperation := func(spent time.Duration) float64 {
		return float64(spent.Nanoseconds()) / 1000 / float64(sample.Operations)
	}
	sample.UserUs = perOperation(userAfter - userBefore)
	sample.SystemUs = perOperation(systemAfter - systemBefore)
	return sample, nil
}

// measureIdleTLS opens connections over TLS and judges what the server grew by for each.
func measureIdleTLS(report *Report, c tlsContender) error {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port))
	var before int64
	// Buffers that the first connection brings along belong to none.
	for index := range idleTLSConnections + 1 {
		// The certificate is of this run, and nothing secret is sent.
		socket, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return err
		}
		defer socket.Close()
		if err := succeed(wire.New(socket), "PING"); err != nil {
			return err
		}
		if index == 0 {
			if before, err = instance.ResidentBytes(c.server.PID); err != nil {
				return err
			}
		}
	}
	time.Sleep(3 * time.Second) // buffers of idle connections are given back
	after, err := instance.ResidentBytes(c.server.PID)
	each := float64(after-before) / idleTLSConnections
	report.addFigure("resident bytes per idle TLS connection", c.name, each)
	report.verdict("resident bytes per idle TLS connection", idleTLSBytesMax,
		spread{each, each, each})
	return err
}
