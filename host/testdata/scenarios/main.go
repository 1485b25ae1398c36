// Command scenarios holds the workflows of the acceptance tests.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {}

var global int

func init() {
	workflow.Register("texts", texts)
	workflow.Register("zeros", zeros)
	workflow.Register("until", until)
	workflow.Register("duplicate", duplicate)
	workflow.Register("iterate", iterate)
	workflow.Register("poll", poll)
	workflow.Register("backoff", backoff)
	workflow.Register("inbody", inBody)
	workflow.Register("parallel", parallel)
	workflow.Register("race", race)
	workflow.Register("background", background)
	workflow.Register("count", count)
	workflow.Register("call", call)
	workflow.Register("payload", payload)
	workflow.Register("bodies", bodies)
	workflow.Register("clock", clockAndRandom)
	workflow.Register("loop", func(context.Context, int) (int, error) {
		for n := 0; ; n++ {
			if n < 0 {
				return n, nil
			}
		}
	})
	workflow.Register("deadlock", func(ctx context.Context, _ int) (int, error) {
		_, _ = workflow.Do(ctx, "one", func(workflow.Step) (int, error) { return 1, nil })
		return <-make(chan int), nil
	})
	workflow.Register("panic", func(context.Context, int) (int, error) { panic("as it must") })
	workflow.Register("hang", hang)
	workflow.Register("methods", methods)
	workflow.Register("compensate", compensate)
	workflow.Register("function", func(ctx context.Context, in int) (int, error) {
		return workflow.Call[int](ctx, "double it", "double", in)
	})
	workflow.RegisterStep("double", func(s workflow.Step, in int) (int, error) {
		if s.Attempt == 1 {
			return 0, errors.New("not at the first attempt")
		}
		return 2 * in, nil
	})
}

// texts sleeps for each text, and gives the milliseconds that each took, or the error.
func texts(ctx context.Context, list []string) ([]string, error) {
	var out []string
	for i, text := range list {
		from := time.Now()
		err := workflow.SleepText(ctx, fmt.Sprint("sleep-", i), text)
		if err != nil {
			out = append(out, err.Error())
			if !errors.Is(err, workflow.ErrInvalidDuration) {
				return out, err
			}
			continue
		}
		out = append(out, fmt.Sprint(time.Since(from).Milliseconds()))
	}
	return out, nil
}

func zeros(ctx context.Context, n int) (int, error) {
	for i := range n {
		if err := workflow.Sleep(ctx, fmt.Sprint("zero-", i), 0); err != nil {
			return i, err
		}
	}
	return n, nil
}

// until sleeps until now plus so many milliseconds; -1 stands for the epoch.
func until(ctx context.Context, ms int64) (int64, error) {
	from := time.Now()
	t := from.Add(time.Duration(ms) * time.Millisecond)
	if ms == -1 {
		t = time.UnixMilli(0)
	}
	err := workflow.SleepUntil(ctx, "until", t)
	return time.Since(from).Milliseconds(), err
}

func duplicate(ctx context.Context, _ int) (string, error) {
	if err := workflow.Sleep(ctx, "pause", time.Second); err != nil {
		return "", err
	}
	err := workflow.Sleep(ctx, "pause", time.Second)
	if !errors.Is(err, workflow.ErrDuplicateName) {
		return "", fmt.Errorf("second sleep: %w", err)
	}
	return err.Error(), nil
}

func iterate(ctx context.Context, n int) ([]int64, error) {
	var at []int64
	for i := range n {
		if _, err := workflow.Call[int](ctx, fmt.Sprint("step-", i), "host/count", i); err != nil {
			return nil, err
		}
		at = append(at, time.Now().UnixMilli())
		if err := workflow.Sleep(ctx, fmt.Sprint("sleep-", i), 3*time.Second); err != nil {
			return nil, err
		}
	}
	return at, nil
}

// poll asks every 5 s, at most 60 times.
func poll(ctx context.Context, _ int) (int, error) {
	for i := range 60 {
		done, err := workflow.Call[bool](ctx, fmt.Sprint("ask-", i), "host/status", i)
		if err != nil {
			return i, err
		}
		if done {
			return i + 1, nil
		}
		time.Sleep(5 * time.Second)
	}
	return 60, errors.New("timeout: not done after 60 tries")
}

// backoff is written by hand around steps and sleeps, with a recover that must never see a suspension.
func backoff(ctx context.Context, _ int) (waits []int, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("a suspension was seen: %v", v)
		}
	}()
	for i := 1; i <= 5; i++ {
		from := time.Now()
		_, err := workflow.Call[int](ctx, fmt.Sprint("try-", i), "host/fail", i, workflow.Attempts(1))
		if err == nil {
			return waits, nil
		}
		if err := workflow.Sleep(ctx, fmt.Sprint("wait-", i), time.Duration(1<<i)*time.Second); err != nil {
			return waits, fmt.Errorf("a suspension was seen: %w", err)
		}
		waits = append(waits, int(time.Since(from).Seconds()))
	}
	return waits, nil
}

func inBody(ctx context.Context, _ int) (string, error) {
	var wg sync.WaitGroup
	ran := 0
	for i := range 10 { // goroutines that want durable calls while the body yields
		wg.Go(func() {
			_ = workflow.Sleep(ctx, fmt.Sprint("other-", i), time.Hour)
			ran++
		})
	}
	text, err := workflow.Do(ctx, "body", func(s workflow.Step) (string, error) {
		err := workflow.Sleep(s, "inner", time.Second)
		var c = make(chan error)
		go func() {
			go func() {
				_, err := workflow.Do(s, "inner", func(workflow.Step) (int, error) { return 1, nil })
				c <- err
			}()
		}()
		deep := <-c
		for range 100 {
			time.Sleep(10 * time.Microsecond)
		}
		return fmt.Sprint(errors.Is(err, workflow.ErrNotHere), errors.Is(deep, workflow.ErrNotHere), ran), nil
	})
	wg.Wait()
	return text, err
}

// parallel sleeps n times for a second at once.
func parallel(ctx context.Context, n int) (int64, error) {
	from := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { _ = workflow.Sleep(ctx, fmt.Sprint("s-", i), time.Second) })
	}
	wg.Wait()
	return time.Since(from).Milliseconds(), nil
}

func race(ctx context.Context, _ int) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	won := make(chan string, 2)
	var wg sync.WaitGroup
	for name, d := range map[string]time.Duration{"short": 500 * time.Millisecond, "long": 24 * time.Hour} {
		wg.Go(func() {
			if workflow.Sleep(ctx, name, d) == nil {
				won <- name
			}
		})
	}
	name := <-won
	cancel()
	wg.Wait()
	return name, nil
}

func background(ctx context.Context, _ int) (int, error) {
	go func() { _ = workflow.Sleep(ctx, "day", 24*time.Hour) }()
	sum := 0
	for i := range 3 {
		v, err := workflow.Call[int](ctx, fmt.Sprint("step-", i), "host/count", i)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
}

// count calls the counter n times in a row.
func count(ctx context.Context, n int) (int, error) {
	last := 0
	for i := range n {
		v, err := workflow.Call[int](ctx, fmt.Sprint("step-", i), "host/count", i)
		if err != nil {
			return last, err
		}
		last = v
	}
	return last, nil
}

// Request says how call calls.
type Request struct {
	Handler string
	Options map[string]any
	Catch   bool
}

func call(ctx context.Context, r Request) (string, error) {
	var opts []workflow.Option
	opts = append(opts, func(o map[string]any) {
		for k, v := range r.Options {
			o[k] = v
		}
	})
	v, err := workflow.Call[string](ctx, "the step", r.Handler, "in", opts...)
	if err == nil {
		return v, nil
	}
	var e *workflow.StepError
	if r.Catch && errors.As(err, &e) {
		return fmt.Sprintf("%s %s %d %s", e.Code, e.Kind, e.Attempts, e.Message), nil
	}
	return "", err
}

func payload(ctx context.Context, n int) (bool, error) {
	b, err := workflow.Call[string](ctx, "get", "host/payload", n)
	if err != nil {
		return false, err
	}
	if err := workflow.Sleep(ctx, "nap", time.Second); err != nil {
		return false, err
	}
	return b == strings.Repeat("\x00é", n), nil
}

func bodies(ctx context.Context, n int) ([]string, error) {
	out := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			out[i], _ = workflow.Do(ctx, fmt.Sprint("body-", i), func(s workflow.Step) (string, error) {
				global++
				return fmt.Sprintf("%d %d", i, global), nil
			})
		})
	}
	wg.Wait()
	if global != 0 {
		return nil, errors.New("a body's memory leaked")
	}
	return out, nil
}

func clockAndRandom(ctx context.Context, _ int) ([]string, error) {
	r := workflow.Rand(ctx)
	out := []string{time.Now().UTC().Format(time.RFC3339Nano), fmt.Sprint(r.Uint64())}
	m := map[int]bool{}
	for i := range 10 {
		m[i] = true
	}
	if err := workflow.Sleep(ctx, "nap", time.Hour); err != nil {
		return nil, err
	}
	return append(out, time.Now().UTC().Format(time.RFC3339Nano), fmt.Sprint(r.Uint64())), nil
}

func hang(ctx context.Context, kind string) (string, error) {
	_, err := workflow.Do(ctx, "hang", func(workflow.Step) (int, error) {
		switch kind {
		case "block":
			<-make(chan int)
		case "panic":
			panic("body panics")
		case "spin":
			for {
				global++
			}
		}
		return 0, workflow.Fatal(errors.New("no way"))
	}, workflow.Attempts(2), workflow.Delay(time.Second), workflow.Timeout(300*time.Millisecond))
	var e *workflow.StepError
	if errors.As(err, &e) {
		return fmt.Sprint(e.Kind, " ", e.Attempts, " ", strings.SplitN(e.Message, "\n", 2)[0]), nil
	}
	return "", err
}

// compensate runs two steps at once: one fails, the other has begun and is waited for.
func compensate(ctx context.Context, _ int) (string, error) {
	ctx2, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var charged string
	var err1, err2 error
	wg.Go(func() { charged, err1 = workflow.Call[string](ctx2, "charge", "host/slow", 1) })
	wg.Go(func() {
		_, err2 = workflow.Call[string](ctx2, "label", "host/broken", 1, workflow.Attempts(1))
		if err2 != nil {
			cancel()
		}
	})
	wg.Wait()
	return fmt.Sprint(charged, err1, err2 != nil), nil
}

// counted counts the calls of its methods.
type counted int

var calls int

func (c *counted) UnmarshalJSON([]byte) error {
	calls++
	return nil
}

func (c *counted) IsZero() bool {
	calls++
	return true
}

func (c *counted) MarshalJSON() ([]byte, error) {
	calls++
	return []byte("0"), nil
}

// methods tells how often methods of its input's types were called.
func methods(_ context.Context, in struct {
	Here  counted `json:",omitzero"`
	There *counted
	List  []counted
}) (int, error) {
	return calls + len(in.List), nil
}
