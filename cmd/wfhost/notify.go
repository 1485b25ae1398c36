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

// supervisor is the service manager that started the process and expects notifications: systemd, for a unit with Type=notify.
// A nil supervisor expects none.
type supervisor struct {
	conn net.Conn
	log  *slog.Logger
	// within is the watchdog timeout after which the supervisor kills the process; 0: none.
	within time.Duration
}

// newSupervisor returns the supervisor from NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID in the environment, nil if there is
// none.
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

// watchdogOf returns the watchdog timeout for the process self, 0 if there is none.
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

// close closes the connection.
func (s *supervisor) close() {
	if s != nil {
		_ = s.conn.Close() // nothing more to send
	}
}

// watch sends watchdog notifications until ctx is done. alive must return only while everything is making progress. If it
// blocks, no notification is sent and the supervisor restarts the process.
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
