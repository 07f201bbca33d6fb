package tls

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	file        string
}

// identity is a certificate with its key, in memory and in files.
type identity struct {
	tls.Certificate
	certificateFile, keyFile string
}

var serial int64

func nextSerial() *big.Int {
	serial++
	return big.NewInt(0x0102030400 + serial)
}

func newECDSA(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newRSA(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key := newECDSA(t)
	template := &x509.Certificate{
		SerialNumber: nextSerial(), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	made := &authority{certificate, key, filepath.Join(t.TempDir(), name+".crt")}
	writePEM(t, made.file, "CERTIFICATE", der)
	return made
}

// pool is what a client trusts that trusts the authority.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// issue makes a certificate for a name, valid until a time, with the alternative names of this host
// and some URIs.
func (a *authority) issue(t *testing.T, name string, until time.Time, key crypto.Signer,
	uris ...string,
) *identity {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: nextSerial(), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth,
		},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	for _, uri := range uris {
		parsed, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, parsed)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	made := &identity{
		Certificate:     tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		certificateFile: filepath.Join(directory, "certificate.pem"),
		keyFile:         filepath.Join(directory, "key.pem"),
	}
	writePEM(t, made.certificateFile, "CERTIFICATE", der)
	writePEM(t, made.keyFile, "PRIVATE KEY", encoded)
	return made
}

// tomorrow is a time until which certificates of a test are valid.
func tomorrow() time.Time { return time.Now().Add(24 * time.Hour) }
