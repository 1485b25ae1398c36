package postgres

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitUnacked bounds how long what was sent may stay unacknowledged. The default of the system is about 15 minutes.
func limitUnacked(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var err error
	if bad := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unackedTime.Milliseconds()))
	}); bad != nil {
		return bad
	}
	return err
}
