//go:build unix

package quarantine

import (
	"errors"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// open maps the file as shared memory: written bytes reach the file even if the process is killed.
func (t *table) open(f *os.File) error {
	b, err := unix.Mmap(int(f.Fd()), 0, rows*rowBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	t.b = b
	t.flag = func(row int32) *atomic.Uint32 {
		return (*atomic.Uint32)(unsafe.Pointer(&b[int(row)*rowBytes])) //nolint:gosec // rows are aligned to 4 bytes
	}
	t.done = func() error { return errors.Join(unix.Munmap(b), f.Close()) }
	return nil
}
