package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// command runs a command in this process and returns its exit code and output.
func command(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = execute(context.Background(), args, stdio{in: strings.NewReader(""), out: &o, err: &e})
	return code, o.String(), e.String()
}

// get makes a request with a token.
func get(t *testing.T, url, token string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// TestLocalToken starts a server: commands of the same user find its token, other callers are refused, and the next
// start has a new token.
func TestLocalToken(t *testing.T) {
	data, address := t.TempDir(), freeAddress(t)
	base := "http://" + address
	p := serveProcess(t, data, address)
	if status, body := get(t, base+"/v1/runs", ""); status != http.StatusUnauthorized || !strings.Contains(body, "wfhost token") {
		t.Fatal(status, body)
	}
	code, first, errs := command("--server", base, "token")
	first = strings.TrimSpace(first)
	if code != exitOK || !strings.HasPrefix(first, "wfh_") {
		t.Fatal(code, first, errs)
	}
	if code, _, errs := command("--server", strings.Replace(base, "127.0.0.1", "localhost", 1), "runs"); code != exitOK {
		t.Error("localhost:", errs)
	}
	if status, body := get(t, base+"/v1/runs", first); status != http.StatusOK {
		t.Error(status, body)
	}
	pointer, err := pointerFile(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(data, "token"), pointer, filepath.Join(data, "audit.jsonl")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != secretMode {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
	if code, _, errs := command("--server", base, "--token", "wfh_wrong", "runs"); code != exitDenied || !strings.Contains(errs, "nobody has this token") {
		t.Error("a wrong token:", code, errs)
	}
	if code, _, errs := command("--server", base, "--token-file", filepath.Join(data, "token"), "runs"); code != exitOK {
		t.Error("--token-file:", code, errs)
	}
	_ = p.Process.Kill()
	p.end()
	p = serveProcess(t, data, address)
	_, second, _ := command("--server", base, "token")
	second = strings.TrimSpace(second)
	if second == first {
		t.Error("the next start has the same token")
	}
	if status, _ := get(t, base+"/v1/runs", first); status != http.StatusUnauthorized {
		t.Error("the token of the start before:", status)
	}
	if status, _ := get(t, base+"/v1/runs", second); status != http.StatusOK {
		t.Error("the token:", status)
	}
	_ = p.Process.Signal(syscall.SIGTERM)
	p.end()
	for _, path := range []string{filepath.Join(data, "token"), pointer} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
	if code, _, errs := command("--server", base, "token"); code != exitNotFound || !strings.Contains(errs, "set WFHOST_TOKEN") {
		t.Error(code, errs)
	}
}

// TestNoToken starts a server that every user of the machine may use without a token.
func TestNoToken(t *testing.T) {
	address := freeAddress(t)
	serveProcess(t, t.TempDir(), address, "--no-token")
	if status, body := get(t, "http://"+address+"/v1/runs", ""); status != http.StatusOK {
		t.Error(status, body)
	}
}

// TestWhereToListen refuses to listen on non-loopback addresses without tokens and TLS.
func TestWhereToListen(t *testing.T) {
	for _, c := range []struct {
		args, want string
	}{
		{"--listen 0.0.0.0:1", "others can reach"}, {"--listen :1", "others can reach"}, {"--listen example.com:1", "others can reach"},
		{"--listen [::]:1", "--tls-cert and --tls-key, or --behind-proxy"}, {"--listen 0.0.0.0:1 --behind-proxy --no-token", "--no-token is for loopback"},
		{"--listen 0.0.0.0:1 --tls-cert a --tls-key b --no-token", "--no-token is for loopback"}, {"--tls-cert a", "belong together"},
		{"--client-ca a", "--client-ca needs --tls-cert"}, {"--listen nonsense", "address and a port"},
	} {
		code, _, errs := command(append([]string{"serve", "--data", t.TempDir()}, strings.Fields(c.args)...)...)
		if code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d %s", c.args, code, errs)
		}
	}
	for _, c := range []serveCmd{{Listen: "127.0.0.1:1"}, {Listen: "localhost:1", NoToken: true}, {Listen: "[::1]:1"},
		{Listen: "0.0.0.0:1", BehindProxy: true}, {Listen: ":1", TLSCert: "a", TLSKey: "b"}} {
		if err := c.checkListen(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestBoundOfConnections opens one connection more than allowed.
func TestBoundOfConnections(t *testing.T) {
	var lc net.ListenConfig
	inner, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &bounded{Listener: inner, limit: 1, log: slog.New(slog.DiscardHandler)}
	defer func() { _ = l.Close() }()
	accepted := make(chan net.Conn)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		t.Helper()
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	dial()
	served := <-accepted
	over := dial()
	if _, err := io.WriteString(over, "GET /v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(over); err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 503 ") || !strings.Contains(string(b), `"code":"busy"`) {
		t.Errorf("%q %v", b, err)
	}
	_ = served.Close()
	_ = served.Close() // twice counts once
	dial()
	<-accepted
	if n := l.open.Load(); n != 1 {
		t.Errorf("%d connections are counted", n)
	}
}
