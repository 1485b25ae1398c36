//go:build real

package host_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
)

// startAll starts n sleepers, 64 at a time.
func startAll(t *testing.T, h *host.Host, n int, input func(i int) string) {
	t.Helper()
	inputs := make([]string, n)
	for i := range inputs {
		inputs[i] = input(i)
	}
	var wg sync.WaitGroup
	next := make(chan int)
	for range 64 {
		wg.Go(func() {
			for i := range next {
				if _, err := h.StartRaw(ctx, "nap", []byte(inputs[i]), host.WithRunID(fmt.Sprint("r", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// TestTenThousandSleeps makes 10,000 sleeps of 0 to 5 seconds by the machine's clock: none ends early, and the
// distribution of lateness is printed.
func TestTenThousandSleeps(t *testing.T) {
	const n = 10_000
	h := newReal(t, nil)
	if _, err := h.Upload(ctx, "nap", napModule()); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	startAll(t, h, n, func(int) string { return fmt.Sprintf("%dms", rng.IntN(5000)) })
	var late []int64
	for i := range n {
		id := fmt.Sprint("r", i)
		if r, err := h.Wait(ctx, id); err != nil || r.Status != host.Completed {
			t.Fatal(r, err)
		}
		var due int64
		for e, err := range h.Journal(ctx, id, 0) {
			switch {
			case err != nil:
				t.Fatal(err)
			case e.Kind == store.KindSleep:
				due = e.DueUnixMs
			case e.Kind == store.KindTimer:
				if e.UnixMs < due {
					t.Fatalf("%s woke %d ms early", id, due-e.UnixMs)
				}
			case e.Kind == store.KindCompleted:
				late = append(late, e.UnixMs-due)
			}
		}
	}
	slices.Sort(late)
	t.Logf("%d sleeps, from the deadline to the end of the run in ms: p50 %d, p90 %d, p99 %d, p99.9 %d, worst %d", len(late),
		late[n/2], late[n*9/10], late[n*99/100], late[n*999/1000], late[n-1])
	if len(late) != n || late[0] < 0 {
		t.Fatalf("%d sleeps, first %d", len(late), late[0])
	}
}

// TestTenThousandSleepersIdle has 10,000 runs sleep for a day and measures the resources of the process in the
// meantime.
func TestTenThousandSleepersIdle(t *testing.T) {
	h := newReal(t, nil)
	if _, err := h.Upload(ctx, "nap", napModule()); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	startAll(t, h, 10_000, func(int) string { return "1d" })
	if _, _, err := h.WaitIdle(ctx); err != nil {
		t.Fatal(err)
	}
	rest(t, time.Second) // compactions of what was just written
	from := cpuTime(t)
	const watched = 10 * time.Second
	rest(t, watched)
	used := cpuTime(t) - from
	s, goroutines := h.Stats(), runtime.NumGoroutine()
	t.Logf("10,000 sleepers: %v of CPU time in %v, %d goroutines (%d before), %+v", used, watched, goroutines, before, s)
	if s.Instances != 0 || s.Runs != 0 || goroutines > before+5 || used > watched/200 {
		t.Fatal("a sleeping host does something")
	}
}

func rest(t *testing.T, d time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	<-ctx.Done()
}

// cpuTime returns the processor time of the process.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
