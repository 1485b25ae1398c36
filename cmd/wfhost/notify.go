package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"
)

// supervisor is the service manager that has started the process and wants to hear how it goes: systemd, for a unit of
// Type=notify. A nil supervisor wants to hear nothing.
type supervisor struct {
	conn net.Conn
	log  *slog.Logger
	// within is how long the supervisor waits for a sign of life before it kills the process; 0: it does not.
	within time.Duration
}

// newSupervisor returns the supervisor that the environment names by NOTIFY_SOCKET,
// WATCHDOG_USEC and WATCHDOG_PID, nil if there is none.
func newSupervisor(log *slog.Logger) *supervisor {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		log.Warn("the service manager cannot be reached, and does not learn that the server is ready", "NOTIFY_SOCKET", path,
			"cause", err)
		return nil
	}
	return &supervisor{conn: conn, log: log,
		within: watchdogOf(os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID"), strconv.Itoa(os.Getpid()))}
}

// watchdogOf returns the time within which signs of life are expected of the process self, 0 if none are.
func watchdogOf(microseconds, of, self string) time.Duration {
	n, err := strconv.ParseInt(microseconds, 10, 64)
	if err != nil || n <= 0 || n > int64(time.Hour)*24/1000 || of != "" && of != self {
		return 0
	}
	return time.Duration(n) * time.Microsecond
}

// tell sends a state, such as READY=1.
func (s *supervisor) tell(format string, args ...any) {
	if s == nil {
		return
	}
	if _, err := fmt.Fprintf(s.conn, format, args...); err != nil {
		s.log.Warn("the service manager does not listen", "cause", err)
	}
}

// close ends the connection.
func (s *supervisor) close() {
	if s != nil {
		_ = s.conn.Close() // nothing is left to be said
	}
}

// watch sends signs of life until ctx is done. alive blocks until everything that must go on has: while it does not return,
// nothing is sent, and the supervisor restarts the process.
func (s *supervisor) watch(ctx context.Context, alive func()) {
	if s == nil || s.within == 0 {
		return
	}
	for tick := time.NewTicker(s.within / 3); ; {
		if alive(); ctx.Err() != nil {
			tick.Stop()
			return
		}
		s.tell("WATCHDOG=1")
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}
