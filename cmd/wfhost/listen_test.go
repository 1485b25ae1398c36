package main

import (
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
)

// comer is an incoming test connection from an address.
type comer struct {
	net.Conn
	from   string
	wrote  strings.Builder
	closed bool
}

func (c *comer) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(c.from), Port: 4711}
}
func (c *comer) SetDeadline(time.Time) error { return nil }
func (c *comer) Write(b []byte) (int, error) { return c.wrote.Write(b) }
func (c *comer) Close() error {
	c.closed = true
	return nil
}

// comers is a listener that accepts the given connections.
type comers struct {
	net.Listener
	next []*comer
}

func (l *comers) Accept() (net.Conn, error) {
	if len(l.next) == 0 {
		return nil, net.ErrClosed
	}
	c := l.next[0]
	l.next = l.next[1:]
	return c, nil
}

// TestConnectionsOfOneAddress opens more connections from one address than are allowed.
func TestConnectionsOfOneAddress(t *testing.T) {
	in := &comers{}
	l := &bounded{Listener: in, limit: 8, log: slog.New(slog.DiscardHandler)}
	var open []net.Conn
	come := func(from, refused string) {
		t.Helper()
		x := &comer{from: from}
		in.next = append(in.next, x)
		c, _ := l.Accept()
		if (c == nil) != (refused != "") || x.closed != (refused != "") || !strings.Contains(x.wrote.String(), refused) {
			t.Errorf("from %s: %v, and is told %q", from, c, x.wrote.String())
		}
		if c != nil {
			open = append(open, c)
		}
	}
	const own, all = "too many connections of your address", "the server has too many connections;"
	for _, c := range [][2]string{{"192.0.2.1", ""}, {"192.0.2.1", ""}, {"::ffff:192.0.2.1", ""}, {"192.0.2.1", ""}, {"192.0.2.1", own},
		{"2001:db8::1", ""}, {"2001:db8::2", ""}, {"192.0.2.2", ""}, {"192.0.2.1", own}} {
		come(c[0], c[1])
	}
	_ = open[0].Close()
	_ = open[0].Close() // twice counts once
	come("192.0.2.1", "")
	come("192.0.2.1", own)
	come("127.0.0.1", "")
	come("127.0.0.1", all)
	come("192.0.2.3", all)
	for _, c := range open {
		_ = c.Close()
	}
	if n := l.open.Load(); n != 0 || len(l.of) != 0 {
		t.Errorf("left over: %d connections, %v", n, l.of)
	}
	for _, from := range []string{"2001:db8:0:1::1", "2001:db8:0:1::2", "2001:db8:0:1:ffff::", "2001:db8:0:1::1"} {
		come(from, "")
	}
	come("2001:db8:0:1::3", own)
	come("2001:db8:0:2::1", "")
	l = &bounded{Listener: in, limit: 4, log: slog.New(slog.DiscardHandler)}
	for _, from := range []string{"fe80::1", "fe80::1", "fe80::2"} { // link-local addresses share their first half
		come(from, "")
	}
	come("fe80::1", own)
	come("fe80::3", "")
	for _, free := range []struct {
		proxy bool
		from  string
	}{{true, "192.0.2.1"}, {false, "127.0.0.1"}, {false, "::1"}} {
		l = &bounded{Listener: in, limit: 8, proxy: free.proxy, log: slog.New(slog.DiscardHandler)}
		for range 8 {
			come(free.from, "")
		}
		come(free.from, all)
	}
}

// TestProxyHasManyConnections listens with and without a proxy in front.
func TestProxyHasManyConnections(t *testing.T) {
	for _, proxy := range []bool{true, false} {
		c := &serveCmd{Listen: "127.0.0.1:0", MaxConnections: 8, BehindProxy: proxy}
		l, err := c.listen(t.Context(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := l.(*bounded); !ok || b.proxy != proxy {
			t.Errorf("behind a proxy %v: %+v", proxy, l)
		}
		_ = l.Close()
	}
}

// TestWhatIsLoggedOfRefusals exceeds the connections of one address and of all addresses: each limit has its own log
// line.
func TestWhatIsLoggedOfRefusals(t *testing.T) {
	for want, from := range map[string][]string{
		`msg="too many connections of one address" limit=2 refused=192.0.2.1:4711`: {"192.0.2.1", "192.0.2.1", "192.0.2.1"},
		`msg="too many connections" limit=4 refused=192.0.2.3:4711`:                {"192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.3"},
	} {
		var log strings.Builder
		in := &comers{}
		for _, address := range from {
			in.next = append(in.next, &comer{from: address})
		}
		l := &bounded{Listener: in, limit: 4, log: slog.New(slog.NewTextHandler(&log, nil))}
		for range from {
			_, _ = l.Accept()
		}
		if !strings.Contains(log.String(), want) || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("the log has %q, want %s", log.String(), want)
		}
	}
}
