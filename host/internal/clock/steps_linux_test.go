package clock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// timerfds counts the kernel timers that this process has open.
func timerfds(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	n := 0
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.Contains(to, "timerfd") {
			n++
		}
	}
	return n
}

// polling counts the goroutines that wait in the netpoller.
func polling() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "[IO wait")
}

// TestStepsOfSystem opens many kernel timers: they block no threads, report nothing while the clock is not set, and
// leave nothing behind. If their readers did not use the netpoller, the test would hang.
func TestStepsOfSystem(t *testing.T) {
	fds := timerfds(t)
	var stops []func()
	var all []<-chan struct{}
	for range 64 {
		c, stop := System().(Stepper).Steps()
		if c == nil {
			t.Fatal("the machine's clock does not report its steps")
		}
		all, stops = append(all, c), append(stops, stop)
	}
	if n := timerfds(t); n != fds+64 {
		t.Errorf("%d timers are open, want %d", n, fds+64)
	}
	for polling() < len(all) {
		runtime.Gosched()
	}
	for i, c := range all {
		if n := len(c); n != 0 {
			t.Error("a step that nobody has made")
		}
		stops[i]()
		stops[i]()
		if _, ok := <-c; ok {
			t.Error("a step is reported after stop")
		}
	}
	if n := timerfds(t); n != fds {
		t.Errorf("%d timers are open after stop, want %d", n, fds)
	}
}

// TestStepTimerIsArmed checks how the kernel's timer is armed.
func TestStepTimerIsArmed(t *testing.T) {
	f, err := newStepTimer()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.arm(); err != nil {
		t.Error("it cannot be armed again:", err)
	}
	if err := f.raw.Control(func(fd uintptr) {
		var left unix.ItimerSpec
		if err := unix.TimerfdGettime(int(fd), &left); err != nil || left.Value.Sec < 100*365*24*3600 {
			t.Errorf("it expires in %d s, %v", left.Value.Sec, err)
		}
		if info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd)); err != nil ||
			!strings.Contains(string(info), "clockid: 0") || !strings.Contains(string(info), "settime flags: 03") {
			t.Errorf("%s %v", info, err)
		}
	}); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := f.arm(); err == nil {
		t.Error("a closed timer is armed")
	}
}

// script is a reader with scripted results.
type script []error

func (s *script) Read([]byte) (int, error) {
	if len(*s) == 0 {
		return 0, io.EOF
	}
	err := (*s)[0]
	*s = (*s)[1:]
	return 8, err
}

func TestWatch(t *testing.T) {
	canceled := &os.PathError{Op: "read", Path: "timerfd", Err: unix.ECANCELED}
	for _, test := range []struct {
		name  string
		reads script
		arm   error
		armed int
		steps int
	}{
		{"set", script{canceled}, nil, 1, 1},
		{"set many times", script{canceled, canceled, canceled}, nil, 3, 1},
		{"expired", script{nil}, nil, 0, 1},
		{"closed", script{os.ErrClosed, canceled}, nil, 0, 0},
		{"cannot be armed", script{canceled, canceled}, errors.New("no"), 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := make(chan struct{}, 1)
			armed := 0
			watch(&test.reads, func() error { armed++; return test.arm }, c)
			steps := 0
			for range c {
				steps++
			}
			if armed != test.armed || steps != test.steps {
				t.Errorf("armed %d times, %d steps, want %d, %d", armed, steps, test.armed, test.steps)
			}
		})
	}
}

// TestStepsInBubble checks that a synctest bubble's time advances although a goroutine waits for steps.
func TestStepsInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fds := timerfds(t)
		a := NewAlarm(System())
		defer a.Close()
		due := time.Now().Add(24 * time.Hour)
		a.Set(due.UnixMilli())
		<-a.C()
		if now := time.Now(); !now.Equal(due) {
			t.Errorf("rings at %v, want %v", now, due)
		}
		if n := timerfds(t); n != fds {
			t.Error("a timer of the kernel is open")
		}
	})
}

// TestStepsWithoutDescriptors checks that a clock that cannot report its steps says so.
func TestStepsWithoutDescriptors(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Skip(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: old.Max}); err != nil {
		t.Skip(err)
	}
	c, stop := System().(Stepper).Steps()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if stop(); c != nil {
		t.Error("a channel without a timer")
	}
}
