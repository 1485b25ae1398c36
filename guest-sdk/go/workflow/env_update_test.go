//go:build !wasip1

package workflow

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// adder accepts updates until it is told to end, and waits for those in progress.
func adder(ctx context.Context, again bool) (int, error) {
	var mu sync.Mutex // guards sum: handlers of several updates run concurrently
	sum := 0
	OnUpdate(ctx, "add", func(ctx context.Context, n int) (int, error) {
		if n == 0 {
			return 0, errors.New("nothing to add")
		}
		if err := Sleep(ctx, strings.Repeat("x", n), time.Hour); err != nil {
			return 0, err
		}
		mu.Lock()
		defer mu.Unlock()
		sum += n
		return sum, nil
	}, Validate(func(n int) error {
		if n < 0 {
			return errors.New("adds only")
		}
		return nil
	}))
	if _, err := Receive[string](ctx, "end"); err != nil {
		return 0, err
	}
	if again {
		return 0, ContinueAsNew(ctx, false)
	}
	err := UpdatesDone(ctx)
	return sum, err
}

// TestEnvUpdate sends updates to a workflow under test: some are refused, some fail, and some are answered
// concurrently.
func TestEnvUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ended := NewEnv(), make(chan int)
		if err := e.Update(t.Context(), "add", 1, nil); !errors.Is(err, ErrUpdateRefused) {
			t.Error("before the workflow handles it:", err)
		}
		go func() {
			n, err := Run(t.Context(), e, adder, true)
			if err != nil {
				t.Error(err)
			}
			ended <- n
		}()
		synctest.Wait()
		for in, says := range map[any]string{-1: "adds only", "text": `input of update "add"`, 0: "nothing to add"} {
			err := e.Update(t.Context(), "add", in, nil)
			if err == nil || !strings.Contains(err.Error(), says) || errors.Is(err, ErrUpdateRefused) == (in == 0) {
				t.Errorf("%v: %v", in, err)
			}
		}
		send := func() {
			if err := e.SendSignal("end", ""); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		send() // the next iteration
		got := make(chan int, 2)
		for n := range 2 {
			go func() {
				var sum int
				if err := e.Update(t.Context(), "add", n+1, &sum); err != nil {
					t.Error(err)
				}
				got <- sum
			}()
		}
		synctest.Wait()
		send()
		if sum := <-got + <-got; sum != 1+3 && sum != 2+3 {
			t.Error("the answers are", sum)
		}
		<-ended
	})
}

// TestEnvUpdateNames refuses what a host refuses: a signal with the name of an update, and an update with a reserved
// name.
func TestEnvUpdateNames(t *testing.T) {
	e := NewEnv()
	if err := e.SendSignal(updatePrefix+"add", 1); err == nil {
		t.Error("an update is sent as a signal")
	}
	if err := e.Update(t.Context(), "host/x", 1, nil); err == nil || errors.Is(err, ErrUpdateRefused) {
		t.Error("update host/x:", err)
	}
}

// TestOnUpdateTwice: handling a name twice panics.
func TestOnUpdateTwice(t *testing.T) {
	defer func() {
		if v := recover(); v != `update "x" is handled twice` {
			t.Error(v)
		}
	}()
	_, err := Run(t.Context(), NewEnv(), func(ctx context.Context, _ any) (int, error) {
		for range 2 {
			OnUpdate(ctx, "x", func(context.Context, int) (int, error) { return 0, nil })
		}
		return 0, nil
	}, nil)
	t.Error("no panic:", err)
}

// TestEnvUpdatesAtOnce sends updates from many goroutines: each gets its own answer.
func TestEnvUpdatesAtOnce(t *testing.T) {
	e := NewEnv()
	var run sync.WaitGroup
	run.Go(func() {
		_, err := Run(t.Context(), e, func(ctx context.Context, _ any) (int, error) {
			OnUpdate(ctx, "echo", func(_ context.Context, n int) (int, error) { return n, nil })
			return Receive[int](ctx, "end")
		}, nil)
		if err != nil {
			t.Error(err)
		}
	})
	for errors.Is(e.Update(t.Context(), "echo", 0, nil), ErrUpdateRefused) {
	}
	var senders sync.WaitGroup
	for n := range 100 {
		senders.Go(func() {
			for range 50 {
				var got int
				if err := e.Update(t.Context(), "echo", n, &got); err != nil || got != n {
					t.Errorf("%d got %d, %v", n, got, err)
					return
				}
			}
		})
	}
	senders.Wait()
	if err := e.SendSignal("end", 1); err != nil {
		t.Error(err)
	}
	run.Wait()
}

// TestEnvUpdateWithLongError cuts a handler's long error as a host does.
func TestEnvUpdateWithLongError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEnv()
		go func() {
			_, err := Run(t.Context(), e, func(ctx context.Context, _ any) (int, error) {
				OnUpdate(ctx, "loud", func(context.Context, int) (int, error) { return 0, errors.New(strings.Repeat("x", 1<<20)) })
				return Receive[int](ctx, "end")
			}, nil)
			if err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if err := e.Update(t.Context(), "loud", 1, nil); err == nil || err.Error() != strings.Repeat("x", 64<<10)+"…" {
			t.Errorf("%.100s", fmt.Sprint(err))
		}
		if err := e.SendSignal("end", 1); err != nil {
			t.Error(err)
		}
	})
}

// TestEnvUpdateAndEnd ends iterations, and the run, before updates are answered: the sender gets an error, as from a
// host.
func TestEnvUpdateAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEnv()
		done := make(chan bool)
		go func() {
			defer close(done)
			if _, err := Run(t.Context(), e, func(ctx context.Context, again bool) (int, error) {
				OnUpdate(ctx, "slow", func(ctx context.Context, n int) (int, error) { return n, Sleep(ctx, "slow", time.Hour) })
				if _, err := Receive[int](ctx, "end"); err != nil || !again {
					return 0, err
				}
				return 0, ContinueAsNew(ctx, false)
			}, true); err != nil {
				t.Error(err)
			}
		}()
		for _, how := range []string{"continued as new", "completed"} {
			synctest.Wait()
			got := make(chan error, 1)
			go func() { got <- e.Update(t.Context(), "slow", 1, nil) }()
			synctest.Wait()
			if err := e.SendSignal("end", 1); err != nil {
				t.Error(err)
			}
			if err := <-got; err == nil || err.Error() != "the run "+how+" before it had answered the update" {
				t.Error(err)
			}
		}
		<-done
		if err := e.Update(t.Context(), "slow", 1, nil); !errors.Is(err, ErrUpdateRefused) {
			t.Error("after the end:", err)
		}
	})
}

// TestOnUpdateEnds refuses updates after the context of their handler has ended, and accepts them again after the
// next OnUpdate.
func TestOnUpdateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, done := NewEnv(), make(chan bool)
		go func() {
			defer close(done)
			_, err := Run(t.Context(), e, func(ctx context.Context, _ any) (int, error) {
				own, cancel := context.WithCancel(ctx)
				OnUpdate(own, "x", func(context.Context, int) (int, error) { return 1, nil })
				_, err := Receive[int](ctx, "next")
				cancel()
				_, err2 := Receive[int](ctx, "next")
				OnUpdate(ctx, "x", func(context.Context, int) (int, error) { return 2, nil })
				_, err3 := Receive[int](ctx, "next")
				return 0, errors.Join(err, err2, err3)
			}, nil)
			if err != nil {
				t.Error(err)
			}
		}()
		for _, want := range []int{1, 0, 2} {
			synctest.Wait()
			got := 0
			err := e.Update(t.Context(), "x", 0, &got)
			if got != want || errors.Is(err, ErrUpdateRefused) != (want == 0) {
				t.Errorf("got %d, %v, want %d", got, err, want)
			}
			if err := e.SendSignal("next", 0); err != nil {
				t.Error(err)
			}
		}
		<-done
	})
}

// TestEnvUpdateTakenAtTheEnd ends iterations, and the run, at the moment when an update is accepted: each sender gets
// its own answer or an error.
func TestEnvUpdateTakenAtTheEnd(t *testing.T) {
	for range 30 {
		e := NewEnv()
		var ended atomic.Bool
		var run sync.WaitGroup
		run.Go(func() {
			defer ended.Store(true)
			_, err := Run(t.Context(), e, func(ctx context.Context, n int) (int, error) {
				OnUpdate(ctx, "echo", func(_ context.Context, n int) (int, error) { return n, nil })
				if _, err := Receive[int](ctx, "next"); err != nil || n == 0 {
					return 0, err
				}
				return 0, ContinueAsNew(ctx, n-1)
			}, 20)
			if err != nil {
				t.Error(err)
			}
		})
		for n := range 4 {
			run.Go(func() {
				for !ended.Load() {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					var got int
					err := e.Update(ctx, "echo", n, &got)
					cancel()
					if errors.Is(err, context.DeadlineExceeded) || err == nil && got != n {
						t.Errorf("%d got %d, %v", n, got, err)
						return
					}
				}
			})
		}
		for range 21 {
			if err := e.SendSignal("next", 0); err != nil {
				t.Error(err)
			}
			runtime.Gosched()
		}
		run.Wait()
		if t.Failed() {
			return
		}
	}
}
