package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/internal/site"
)

// reservedFiles is how many file descriptors stay free for the store, modules and requests of workflows. A store without
// descriptors fails. A store with a million runs has about fifty tables and logs open.
const reservedFiles = 256

// Bounds of refused connections: how long and how many are kept open so that their clients can read the refusal.
const (
	lingerTime   = time.Second
	maxLingering = 16
)

// fewestFiles is the minimum limit of open files for a server. A server without runs has about 25 open. Each table of the
// store, connection, module being compiled and backup takes more.
const fewestFiles = 128

// enoughFiles returns an error if the limit of open files is so low that the store would fail with its first table.
func enoughFiles() error {
	if n := maxFiles(); n < fewestFiles {
		return fmt.Errorf("this process may have %d files open at a time, and a server needs %d at least: raise the limit "+
			"(ulimit -n)", n, fewestFiles)
	}
	return nil
}

// fewestConnections are accepted even with few descriptors left.
const fewestConnections = 8

// perAddress is the divisor for the connections of one address, or one IPv6 network: a half, so that one address cannot lock
// out every other address. Two addresses together can, and many sites have 256 IPv6 networks. But a smaller share would be
// too small for programs that share an address behind a NAT or a balancer.
const perAddress = 2

// bounded is a listener that bounds its connections. It closes any connection beyond the bound, so that neither the listener
// nor the store blocks.
type bounded struct {
	net.Listener
	limit int64
	proxy bool // all connections come from one proxy, so addresses mean nothing
	open  atomic.Int64
	log   *slog.Logger

	mu sync.Mutex
	of map[netip.Prefix]int64 // open connections by address, without loopback

	lingering atomic.Int64 // refused connections that are not closed yet

	last atomic.Int64 // Unix time in seconds of the last log line about refusals
}

// Answers to refused clients. A TLS client cannot read them.
const (
	tooMany          = refusedHead + `"detail":"the server has too many connections; try again later"}` + "\n"
	tooManyOfAddress = refusedHead + `"detail":"the server has too many connections of your address; close some, or try again ` +
		`later"}` + "\n"
	refusedHead = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\n" +
		"Connection: close\r\n\r\n" +
		`{"type":"about:blank","title":"Service Unavailable","status":503,"code":"busy",`
)

// Accept returns the next connection within the bounds.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		limit := min(b.limit, int64(max(maxFiles()-reservedFiles, fewestConnections)))
		own := max(limit/perAddress, 1)
		leave, ok := b.enter(c.RemoteAddr(), own)
		switch {
		case !ok:
			b.refuse(c, tooManyOfAddress, "too many connections of one address", own)
		case b.open.Add(1) > limit:
			b.open.Add(-1)
			leave()
			b.refuse(c, tooMany, "too many connections", limit)
		default:
			return &counted{Conn: c, done: sync.OnceFunc(func() {
				b.open.Add(-1)
				leave()
			})}, nil
		}
	}
}

// enter counts a connection of an address until leave is called. It reports false if the address has too many. Loopback
// addresses are not counted: the workers, commands and proxies of this machine share one, and a local user could do worse.
func (b *bounded) enter(from net.Addr, most int64) (leave func(), ok bool) {
	tcp, isTCP := from.(*net.TCPAddr)
	if b.proxy || !isTCP || tcp.IP.IsLoopback() {
		return func() {}, true
	}
	at := site.Of(tcp.AddrPort().Addr())
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of[at] >= most {
		return nil, false
	}
	if b.of == nil {
		b.of = map[netip.Prefix]int64{}
	}
	b.of[at]++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.of[at]--
		if b.of[at] == 0 {
			delete(b.of, at)
		}
	}, true
}

// refuse tells a client why it is refused, logs the reason and closes the connection. If a connection is closed before its
// request was read, it is reset and the client does not see the answer. So the request is read first, unless too many
// refused connections are lingering.
func (b *bounded) refuse(c net.Conn, why, what string, limit int64) {
	if now := time.Now().Unix(); b.last.Swap(now) != now {
		b.log.Warn(what, "limit", limit, "refused", c.RemoteAddr())
	}
	_ = c.SetDeadline(time.Now().Add(lingerTime))
	_, _ = c.Write([]byte(why)) // it fits into the socket's buffer
	tcp, ok := c.(*net.TCPConn)
	if !ok || b.lingering.Add(1) > maxLingering {
		if ok {
			b.lingering.Add(-1)
		}
		_ = c.Close() // it was not served
		return
	}
	go func() {
		defer b.lingering.Add(-1)
		_ = tcp.CloseWrite()
		_, _ = io.CopyN(io.Discard, tcp, maxHeaderBytes) // until the client closes or the deadline
		_ = tcp.Close()                                  // likewise
	}()
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	done func()
}

// Close closes the connection and ends its count.
func (c *counted) Close() error {
	defer c.done()
	return c.Conn.Close()
}

// certificates are the TLS files of a server, which are reloaded when they change.
type certificates struct {
	cert, key, clients string // clients: CA certificates for client certificates; empty: not required
	log                *slog.Logger

	mu      sync.Mutex
	looked  time.Time
	changed [3]time.Time
	config  *tls.Config
}

// lookAgain is the shortest interval between checks for changed files.
const lookAgain = time.Second

// newCertificates reads the files.
func newCertificates(cert, key, clients string, log *slog.Logger) (*certificates, error) {
	c := &certificates{cert: cert, key: key, clients: clients, log: log}
	return c, c.read(time.Now())
}

// server returns a TLS configuration that always uses the current certificates.
func (c *certificates) server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current(time.Now()), nil }}
}

// current returns the current configuration. It reloads changed files and keeps the old configuration if that fails.
func (c *certificates) current(now time.Time) *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.looked) < lookAgain {
		return c.config
	}
	c.looked = now
	if c.times() != c.changed {
		if err := c.read(now); err != nil {
			c.log.Error("certificates cannot be used, those before stay", "cause", err)
		} else {
			c.log.Info("certificates read again", "file", c.cert)
		}
	}
	return c.config
}

// times returns the modification times of the files.
func (c *certificates) times() (t [3]time.Time) {
	for i, path := range []string{c.cert, c.key, c.clients} {
		if info, err := os.Stat(path); err == nil {
			t[i] = info.ModTime()
		}
	}
	return t
}

// read reads the files.
func (c *certificates) read(now time.Time) error {
	c.looked, c.changed = now, c.times()
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("--tls-cert %s and --tls-key %s: %w", c.cert, c.key, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, Certificates: []tls.Certificate{pair}}
	if c.clients != "" {
		config.ClientCAs, err = readPool(c.clients)
		if err != nil {
			return fmt.Errorf("--client-ca: %w", err)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	c.config = config
	return nil
}

// readPool reads PEM certificates.
func readPool(path string) (*x509.CertPool, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", path)
	}
	return pool, nil
}

// checkListen refuses addresses that other machines can reach, unless tokens are required and protected by TLS, of the server
// or of a proxy.
func (c *serveCmd) checkListen() error {
	hostname, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return &exitCode{exitUsage, fmt.Errorf("--listen must be an address and a port, got %q", c.Listen)}
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return &exitCode{exitUsage, errors.New("--tls-cert and --tls-key belong together")}
	}
	if err := c.checkNames(); err != nil {
		return &exitCode{exitUsage, err}
	}
	if c.ClientCA != "" && c.TLSCert == "" {
		return &exitCode{exitUsage, errors.New("--client-ca needs --tls-cert and --tls-key")}
	}
	if isLoopback(hostname) {
		return nil
	}
	switch {
	case c.NoToken:
		return &exitCode{exitUsage, fmt.Errorf("--no-token is for loopback addresses only: others can reach %q", c.Listen)}
	case c.TLSCert == "" && !c.BehindProxy:
		return &exitCode{exitUsage, fmt.Errorf("others can reach %q, where tokens must not be sent in the clear: give --tls-cert "+
			"and --tls-key, or --behind-proxy if a proxy in front of it has TLS, or listen on a loopback address", c.Listen)}
	}
	return nil
}

// isLoopback reports whether a host name or IP is loopback.
func isLoopback(hostname string) bool {
	ip := net.ParseIP(hostname)
	return hostname == "localhost" || ip != nil && ip.IsLoopback()
}

// checkNames refuses names and origins that no request can have.
func (c *serveCmd) checkNames() error {
	for _, name := range c.Hosts {
		if name == "" || strings.ContainsAny(name, ":/@*?# ") {
			return fmt.Errorf("--host must be a name such as api.example.com, without scheme, port and path, got %q", name)
		}
	}
	for _, origin := range c.AllowOrigin {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" ||
			origin != strings.ToLower(u.Scheme+"://"+u.Host) || strings.Contains(origin, "*") ||
			u.Port() == map[string]string{"http": "80", "https": "443"}[u.Scheme] {
			return fmt.Errorf("--allow-origin must be what a browser sends, such as https://app.example.com: in small letters, "+
				"without path and default port, got %q", origin)
		}
	}
	return nil
}

// listen opens the listener.
func (c *serveCmd) listen(ctx context.Context, log *slog.Logger) (net.Listener, error) {
	return c.listenOn(ctx, c.Listen, c.MaxConnections, c.TLSCert != "", log)
}

// listenOn opens a listener with a bound on connections, with TLS if secure is set.
func (c *serveCmd) listenOn(ctx context.Context, address string, connections int, secure bool, log *slog.Logger) (
	net.Listener, error) {
	var config *tls.Config
	if secure {
		certs, err := newCertificates(c.TLSCert, c.TLSKey, c.ClientCA, log)
		if err != nil {
			return nil, err
		}
		config = certs.server()
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	l = &bounded{Listener: l, limit: int64(connections), proxy: c.BehindProxy, log: log}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	return l, nil
}
