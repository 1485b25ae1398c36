package logfs

import (
	"errors"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// skipUnlessAsync skips a test if the kernel, or a sandbox, does not let the process submit I/O.
func skipUnlessAsync(t *testing.T) {
	t.Helper()
	var s syncer
	s.open()
	defer s.close()
	if s.state != open {
		t.Skip("the kernel offers no asynchronous fsync here")
	}
}

// A failed fsync of the kernel returns an error.
func TestAsyncError(t *testing.T) {
	for _, want := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		if err := (&completion{result: -int64(want)}).err(); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if err := new(completion).err(); err != nil {
		t.Error(err)
	}
	skipUnlessAsync(t)
	var s syncer
	defer s.close()
	r, w, err := pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r()
	// A pipe cannot be synced. Whether the kernel reports that at once or later, the caller must get the error, or sync
	// by itself.
	if done, err := s.dataSync(w); done && err == nil {
		t.Error("a pipe was synced")
	}
}

func pipe() (closeAll func(), w uintptr, err error) {
	var fds [2]int
	if err := syscall.Pipe(fds[:]); err != nil {
		return nil, 0, err
	}
	return func() { _, _ = syscall.Close(fds[0]), syscall.Close(fds[1]) }, uintptr(fds[1]), nil
}

// While goroutines wait for processors, the kernel syncs asynchronously.
func TestBusy(t *testing.T) {
	skipUnlessAsync(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	fs := New(vfs.Default, t.TempDir(), size)
	f, err := fs.Create(fs.PathJoin(t.TempDir(), "1.log"), category)
	if err != nil {
		t.Fatal(err)
	}
	log := f.(*logFile)
	if err := f.SyncData(); err != nil || log.busy() {
		t.Error("nothing else is to be done, but it is busy: ", err)
	}
	if got := fs.syncer.state; got != unopened {
		t.Errorf("state %d of the asynchronous fsyncs, which nobody needed", got)
	}
	stop := make(chan struct{})
	var working sync.WaitGroup
	for range 10 * workPerProcessor {
		working.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					runtime.Gosched()
				}
			}
		})
	}
	for range 100 {
		if _, err := f.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if err := f.SyncData(); err != nil {
			t.Error(err)
		}
	}
	if got := fs.syncer.state; got != open {
		t.Errorf("state %d of the asynchronous fsyncs", got)
	}
	close(stop)
	working.Wait()
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := fs.Stop(); err != nil {
		t.Error(err)
	}
}
