package clock

import (
	"errors"
	"io"
	"math"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Steps reports when the machine's clock is set or the machine resumes. It uses a kernel timer that never expires and
// that the kernel cancels at these events. One goroutine reads it through the netpoller: no thread waits, and nothing
// runs until the kernel cancels the timer.
func (system) Steps() (c <-chan struct{}, stop func()) {
	steps := make(chan struct{}, 1)
	if virtual() && virtual() { // twice, in case the clock was set between the two readings of virtual
		return steps, func() {}
	}
	f, err := newStepTimer()
	if err != nil { // no more descriptors, or a sandbox without these timers
		return nil, func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		watch(f, f.arm, steps)
	}()
	return steps, sync.OnceFunc(func() {
		_ = f.Close() // ends the read; a timerfd has nothing to flush
		<-done
	})
}

// virtual reports whether package time shows another clock than the machine's, as in a bubble of testing/synctest. Such
// a clock is never set, and a goroutine that reads a descriptor would keep it from advancing.
func virtual() bool {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &ts); err != nil {
		return false
	}
	return time.Since(time.Unix(ts.Unix()).Round(0)).Abs() > time.Minute
}

// watch reports each step to c until r fails. It closes c.
func watch(r io.Reader, arm func() error, c chan<- struct{}) {
	defer close(c)
	var expirations [8]byte
	for {
		_, err := r.Read(expirations[:])
		if errors.Is(err, unix.ECANCELED) {
			err = arm()
		}
		if err != nil {
			return
		}
		notify(c)
	}
}

// A stepTimer is an armed timerfd.
type stepTimer struct {
	*os.File

	raw syscall.RawConn
}

func newStepTimer() (*stepTimer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	t := &stepTimer{File: os.NewFile(uintptr(fd), "timerfd")}
	t.raw, err = t.SyscallConn()
	if err == nil {
		err = t.arm()
	}
	if err != nil {
		_ = t.Close() // the first error counts
		return nil, err
	}
	return t, nil
}

// arm sets the timer to the last instant that the kernel takes.
func (t *stepTimer) arm() error {
	last := unix.ItimerSpec{Value: unix.Timespec{Sec: math.MaxInt}}
	var err error
	failed := t.raw.Control(func(fd uintptr) { // not by Fd, which makes reads block a thread
		err = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &last, nil)
	})
	if errors.Is(err, unix.ECANCELED) { // set since the last read; the timer is armed nevertheless
		err = nil
	}
	return errors.Join(failed, err)
}
