package logfs

import (
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// syncer lets the kernel sync a file while no thread of the process waits for it. For Go's scheduler, a thread in a
// system call keeps its processor until the next check of all threads. It is due every 20 µs, and comes after 70 to 150
// because Linux rounds such short timers; an fsync of a fast disk has ended by then. So meanwhile a program with two
// processors would have only one.
//
// It uses asynchronous I/O of io_submit(2), with the operation IOCB_CMD_FDSYNC (Linux 4.18), which unlike io_uring is
// allowed in usual containers. At the end, the kernel adds 1 to an eventfd, on which Go's poller waits. The zero value
// is ready for use.
type syncer struct {
	mu      sync.Mutex // held while a file is synced
	state   syncerState
	context uintptr // aio_context_t
	event   *os.File
	eventFd uint32
}

type syncerState uint8

const (
	unopened syncerState = iota
	open
	unusable
)

// Constants of linux/aio_abi.h.
const (
	commandDataSync = 3 // IOCB_CMD_FDSYNC
	flagEventFd     = 1 // IOCB_FLAG_RESFD
)

// controlBlock is struct iocb of linux/aio_abi.h, in its layout for little-endian machines. Go's wazero compiler
// supports only these.
type controlBlock struct {
	data             uint64
	key, rwFlags     uint32
	command          uint16
	priority         int16
	fd               uint32
	address, n, from uint64
	reserved         uint64
	flags, eventFd   uint32
}

// completion is struct io_event of linux/aio_abi.h.
type completion struct {
	data, object  uint64
	result, other int64
}

// dataSync makes the data of a file durable. done is false if the kernel does not support it, or is syncing another
// file.
func (s *syncer) dataSync(fd uintptr) (done bool, err error) {
	if !s.mu.TryLock() {
		return false, nil
	}
	defer s.mu.Unlock()
	if s.state == unopened {
		s.open()
	}
	if s.state != open {
		return false, nil
	}
	block := &controlBlock{command: commandDataSync, fd: uint32(fd), flags: flagEventFd, eventFd: s.eventFd}
	blocks := [1]*controlBlock{block}
	if n, _, e := syscall.RawSyscall(unix.SYS_IO_SUBMIT, s.context, 1, uintptr(unsafe.Pointer(&blocks))); e != 0 || n != 1 {
		if e != syscall.EAGAIN && e != syscall.ENOMEM { // not supported by the file system, or forbidden
			s.state = unusable
		}
		return false, nil
	}
	return true, s.wait()
}

// wait waits for the operation that was submitted.
func (s *syncer) wait() error {
	var count [8]byte
	_, err := s.event.Read(count[:])
	// If the poller fails, the kernel is still asked: an operation must not outlive this call.
	var c completion
	for {
		n, _, e := syscall.Syscall6(unix.SYS_IO_GETEVENTS, s.context, 1, 1, uintptr(unsafe.Pointer(&c)), 0, 0)
		if e == syscall.EINTR {
			continue
		}
		if e != 0 || n != 1 {
			s.state = unusable
			return os.NewSyscallError("io_getevents", e)
		}
		break
	}
	if err != nil {
		s.state = unusable
	}
	return c.err()
}

// err returns the error of the operation, nil if it succeeded.
func (c *completion) err() error {
	if c.result < 0 {
		return &os.SyscallError{Syscall: "fdatasync", Err: syscall.Errno(-c.result)}
	}
	return nil
}

func (s *syncer) open() {
	s.state = unusable
	if _, _, e := syscall.Syscall(unix.SYS_IO_SETUP, 1, uintptr(unsafe.Pointer(&s.context)), 0); e != 0 {
		return
	}
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		s.destroy()
		return
	}
	var none completion
	if _, _, e := syscall.Syscall6(unix.SYS_IO_GETEVENTS, s.context, 0, 0, uintptr(unsafe.Pointer(&none)), 0, 0); e != 0 {
		// The result of an operation could not be read, and its error would be lost.
		_ = unix.Close(fd)
		s.destroy()
		return
	}
	s.eventFd, s.event, s.state = uint32(fd), os.NewFile(uintptr(fd), "eventfd"), open
}

func (s *syncer) destroy() {
	_, _, _ = syscall.Syscall(unix.SYS_IO_DESTROY, s.context, 0, 0)
	s.context = 0
}

// close releases the kernel's resources.
func (s *syncer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = unusable
	if s.event != nil {
		_ = s.event.Close()
		s.event = nil
	}
	if s.context != 0 {
		s.destroy()
	}
}
