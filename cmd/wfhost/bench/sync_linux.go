package bench

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// dataSync makes the written data of a file durable, without its times.
func dataSync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }

// pause sleeps for d, and is late by some ten microseconds. Signals do not cut it short.
func pause(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	for {
		if err := syscall.Nanosleep(&t, &t); !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
