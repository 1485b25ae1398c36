package doctor

import "golang.org/x/sys/unix"

// synchronized returns what the kernel says of a clock that nothing keeps right, empty if something does, or it does not say.
func synchronized() string {
	var t unix.Timex // asks for nothing to be changed
	if state, err := unix.Adjtimex(&t); err != nil || state != unix.TIME_ERROR || t.Status&unix.STA_UNSYNC == 0 {
		return ""
	}
	return "the kernel says that it is not synchronized"
}
