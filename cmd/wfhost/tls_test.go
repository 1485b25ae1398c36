package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/cmd/wfhost/doctor"
)

// authority signs the certificates of a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("ca", 1, true)
	return a
}

// sign writes NAME.pem and NAME.key.
func (a *authority) sign(name string, serial int64, ca bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: ca, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	parent, by := template, key
	if a.cert != nil {
		parent, by = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	a.write(name+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a *authority) write(name string, b []byte) {
	a.t.Helper()
	if err := os.WriteFile(a.path(name), b, 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// TestTLS calls a TLS server that requires client certificates.
func TestTLS(t *testing.T) {
	a := newAuthority(t)
	a.sign("server", 2, false)
	a.sign("client", 3, false)
	foreign := newAuthority(t)
	foreign.sign("client", 4, false)
	address, data := freeAddress(t), t.TempDir()
	p := startProcess(t, "serve", "--data", data, "--listen", address, "--tls-cert", a.path("server.pem"), "--tls-key", a.path("server.key"),
		"--client-ca", a.path("ca.pem"))
	if line, err := p.lines.ReadString('\n'); err != nil || !strings.Contains(line, "wfhost serves https://"+address) {
		t.Fatal(line, err)
	}
	base := []string{"--server", "https://" + address}
	client := []string{"--ca", a.path("ca.pem"), "--client-cert", a.path("client.pem"), "--client-key", a.path("client.key")}
	for want, args := range map[string][]string{
		"":                        client,
		"is not one that is trus": {"--client-cert", a.path("client.pem"), "--client-key", a.path("client.key")},
		"certificate required":    {"--ca", a.path("ca.pem")},
		"no server at":            {"--ca", a.path("ca.pem"), "--client-cert", foreign.path("client.pem"), "--client-key", foreign.path("client.key")},
		"--ca: ":                  {"--ca", a.path("ca.key")},
		"--client-cert and":       {"--client-cert", a.path("client.pem")},
		"nobody has this token":   append([]string{"--token", "wfh_x"}, client...),
	} {
		code, _, errs := command(append(append(append([]string{}, base...), args...), "runs")...)
		if (code == exitOK) != (want == "") || !strings.Contains(errs, want) {
			t.Errorf("%v: %d %q, want %q", args, code, errs, want)
		}
	}
}

// TestDoctorAsksTheServerOfItsConfig: doctor finds a TLS server on another port by the config file of the server,
// which leads to its address, its certificate (of a private authority) and the token in its data. A server with another
// certificate at that address does not get the token.
func TestDoctorAsksTheServerOfItsConfig(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir()) // so that the token is found only by the file
	a := newAuthority(t)
	a.sign("server", 2, false)
	a.sign("other", 3, false)
	address, data := freeAddress(t), t.TempDir()
	file := func(cert string) string {
		a.write(cert+".yaml", fmt.Appendf(nil, "data: %s\nlisten: %s\ntls-cert: %s\ntls-key: %s\n", data, address, a.path(cert+".pem"),
			a.path(cert+".key")))
		return a.path(cert + ".yaml")
	}
	p := startProcess(t, "serve", "--config", file("server"))
	if line, err := p.lines.ReadString('\n'); err != nil || !strings.Contains(line, "wfhost serves https://"+address) {
		t.Fatal(line, err)
	}
	for cert, want := range map[string]doctor.Status{"server": doctor.OK, "other": doctor.Fail} {
		_, out, errs := command("doctor", "--config", file(cert), "--for", "1ms", "--format", "json")
		var r doctor.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err, out, errs)
		}
		at := slices.IndexFunc(r.Checks, func(c doctor.Check) bool { return c.Name == "server" })
		token := slices.IndexFunc(r.Checks, func(c doctor.Check) bool { return c.Name == "token" && c.Status == doctor.OK })
		if at < 0 || r.Checks[at].Status != want || (token >= 0) != (want == doctor.OK) {
			t.Errorf("%s: %+v", cert, r.Checks)
		}
	}
}

// TestCertificatesAreReadAgain replaces the certificate of a server, at first by an unusable one.
func TestCertificatesAreReadAgain(t *testing.T) {
	a := newAuthority(t)
	a.sign("server", 2, false)
	c, err := newCertificates(a.path("server.pem"), a.path("server.key"), "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	serial := func(after time.Duration) int64 {
		t.Helper()
		cert, err := x509.ParseCertificate(c.current(time.Now().Add(after)).Certificates[0].Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return cert.SerialNumber.Int64()
	}
	touch := func(at time.Duration) {
		t.Helper()
		for _, name := range []string{"server.pem", "server.key"} {
			if err := os.Chtimes(a.path(name), time.Now().Add(at), time.Now().Add(at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	a.write("server.pem", []byte("half of a certific"))
	touch(time.Minute)
	if n := serial(time.Minute); n != 2 {
		t.Error("after one that cannot be used:", n)
	}
	a.sign("server", 9, false)
	touch(2 * time.Minute)
	if n := serial(time.Minute + lookAgain/2); n != 2 {
		t.Error("it was looked at again at once:", n)
	}
	if n := serial(2 * time.Minute); n != 9 {
		t.Error("after another one:", n)
	}
	if _, err := newCertificates(a.path("nope"), a.path("server.key"), "", nil); err == nil || !strings.Contains(err.Error(), "--tls-cert") {
		t.Error(err)
	}
	if _, err := newCertificates(a.path("server.pem"), a.path("server.key"), a.path("server.key"), nil); err == nil ||
		!strings.Contains(err.Error(), "no certificate in PEM") {
		t.Error(err)
	}
	// The listener's config selects the newest certificate for each connection.
	l, err := tls.Listen("tcp", "127.0.0.1:0", c.server())
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })}
	go func() { _ = srv.Serve(l) }()
	defer func() { _ = srv.Close() }()
	pool, err := readPool(a.path("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if s := conn.ConnectionState(); s.PeerCertificates[0].SerialNumber.Int64() != 9 || s.NegotiatedProtocol == "h2" {
		t.Error(s.PeerCertificates[0].SerialNumber, s.NegotiatedProtocol)
	}
}
