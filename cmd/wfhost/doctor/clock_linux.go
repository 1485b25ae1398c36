package doctor

import "golang.org/x/sys/unix"

// synchronized returns the kernel's complaint about an unsynchronized clock, empty if the clock is synchronized or
// unknown.
func synchronized() string {
	var t unix.Timex // changes nothing
	if state, err := unix.Adjtimex(&t); err != nil || state != unix.TIME_ERROR || t.Status&unix.STA_UNSYNC == 0 {
		return ""
	}
	return "the kernel says that it is not synchronized"
}
