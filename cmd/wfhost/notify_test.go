//go:build unix

package main

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestNotify checks that a server notifies systemd when it is ready, alive and stopping.
func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_ = l.SetReadDeadline(time.Now().Add(time.Minute))
	expect := func(want string) {
		t.Helper()
		for b := make([]byte, 4096); ; {
			n, err := l.Read(b)
			if err != nil {
				t.Fatalf("no %s: %v", want, err)
			}
			if strings.Contains(string(b[:n]), want) {
				return
			}
		}
	}
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "300000")
	p := serveProcess(t, t.TempDir(), freeAddress(t), "--drain", "0")
	expect("READY=1")
	expect("WATCHDOG=1")
	expect("WATCHDOG=1")
	_ = p.Process.Signal(syscall.SIGTERM)
	expect("STOPPING=1")
	if code := p.end(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// told is a connection that records what is sent.
type told struct {
	net.Conn
	all []string
}

func (c *told) Write(b []byte) (int, error) {
	c.all = append(c.all, string(b))
	return len(b), nil
}

// TestWatchdog notifies the watchdog three times per timeout, but not while the host makes no progress.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &told{}
		s := &supervisor{conn: c, log: slog.New(slog.DiscardHandler), within: 3 * time.Second}
		ctx, cancel := context.WithCancel(context.Background())
		stuck, block := make(chan struct{}), false
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.watch(ctx, func() {
				if block {
					<-stuck
				}
			})
		}()
		<-time.After(3500 * time.Millisecond)
		synctest.Wait()
		if len(c.all) != 4 {
			t.Errorf("%q", c.all)
		}
		block = true
		<-time.After(time.Hour)
		synctest.Wait()
		if len(c.all) != 4 {
			t.Errorf("it was fed %d times while nothing went on", len(c.all)-4)
		}
		cancel()
		close(stuck)
		<-done
	})
	for _, c := range []struct {
		usec, pid string
		want      time.Duration
	}{{"", "", 0}, {"60000000", "", time.Minute}, {"60000000", "7", time.Minute}, {"60000000", "8", 0}, {"x", "", 0}, {"-1", "", 0},
		{"9223372036854775807", "", 0}} {
		if got := watchdogOf(c.usec, c.pid, "7"); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	var none *supervisor
	none.tell("READY=1")
	none.watch(context.Background(), nil)
	none.close()
}
