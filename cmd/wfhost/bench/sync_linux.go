package bench

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// dataSync makes what was written to a file durable, without its times.
func dataSync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }

// pause waits, and is late by some ten microseconds. A signal may end it before its time.
func pause(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	for {
		if err := syscall.Nanosleep(&t, &t); !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
