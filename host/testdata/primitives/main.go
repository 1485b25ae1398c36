// Command primitives holds workflows that use signals, hooks, children, output and what else crosses their run.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {}

func init() {
	workflow.Register("receive", receive)
	workflow.Register("patient", patient)
	workflow.Register("selects", selects)
	workflow.Register("withdraws", withdraws)
	workflow.Register("approval", approval)
	workflow.Register("hooked", hooked)
	workflow.Register("beside", beside)
	workflow.Register("parent", parent)
	workflow.Register("child", child)
	workflow.Register("deep", deep)
	workflow.Register("generations", generations)
	workflow.Register("sender", sender)
	workflow.Register("counter", counter, workflow.Queries("count", "fail", "sleep", "attributes"))
	workflow.Register("overfull", overfull)
	workflow.Register("collect", collect)
	workflow.Register("output", output)
	workflow.Register("markers", markers)
	workflow.Register("cooperative", cooperative)
	workflow.Register("stubborn", stubborn)
	workflow.Register("saga", saga)
	workflow.Register("futures", futures)
	workflow.Register("retryable", retryable)
	workflow.Register("attributes", attributes)
	workflow.Register("typed", typed)
}

// receive receives n signals named go, and gives them joined.
func receive(ctx context.Context, n int) (string, error) {
	var all []string
	for range n {
		v, err := workflow.Receive[string](ctx, "go")
		if err != nil {
			return "", err
		}
		all = append(all, v)
	}
	return strings.Join(all, ","), nil
}

// patient waits for a signal, but not for ever.
func patient(ctx context.Context, seconds int) (string, error) {
	v, err := workflow.ReceiveTimeout[string](ctx, "go", time.Duration(seconds)*time.Second)
	if errors.Is(err, workflow.ErrTimeout) {
		return "timeout", nil
	}
	return v, err
}

// selects waits for a signal or for time, with Go's own means.
func selects(ctx context.Context, _ int) (string, error) {
	var got []string
	for len(got) < 3 {
		select {
		case v := <-workflow.Signal[string](ctx, "go"):
			got = append(got, v)
		case <-time.After(time.Hour):
			got = append(got, "hour")
		}
	}
	return strings.Join(got, ","), nil
}

// withdraws gives a wait up by its context, and receives what came later by another one.
func withdraws(ctx context.Context, _ int) (string, error) {
	short, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err := workflow.Receive[string](short, "go")
	if !errors.Is(err, context.DeadlineExceeded) {
		return "", fmt.Errorf("the wait ended with %w", err)
	}
	return workflow.Receive[string](ctx, "go")
}

type decision struct{ By string }

// approval asks a person by a hook.
func approval(ctx context.Context, token string) (string, error) {
	t, err := workflow.Hook(ctx, "decision", token, workflow.HookReply(200, "text/plain", "thank you"))
	if errors.Is(err, workflow.ErrConflict) {
		return "taken: " + err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	if _, err := workflow.Call[string](ctx, "ask", "host/mail", t); err != nil {
		return "", err
	}
	d, err := workflow.ReceiveTimeout[decision](ctx, "decision", 7*24*time.Hour)
	if errors.Is(err, workflow.ErrTimeout) {
		return "nobody answered", nil
	}
	return "approved by " + d.By, err
}

// beside sleeps for minutes while a step runs, and tells when it has woken.
func beside(ctx context.Context, minutes int) (string, error) {
	f := workflow.Async(ctx, func(ctx context.Context) (string, error) {
		return workflow.Call[string](ctx, "slow", "host/book", map[string]string{"what": "flight"})
	})
	time.Sleep(time.Duration(minutes) * time.Minute)
	if _, err := workflow.Emit(ctx, "woke", minutes); err != nil {
		return "", err
	}
	return f.Get(ctx)
}

// hooked gives what was delivered to its token.
func hooked(ctx context.Context, token string) (string, error) {
	t, err := workflow.Hook(ctx, "delivery", token, workflow.HookReply(200, "text/plain", "thank you"))
	if err != nil {
		return "", err
	}
	workflow.Log(ctx).Info("token " + t)
	return workflow.Receive[string](ctx, "delivery")
}

type childPlan struct {
	Child   string
	Sleep   int
	OnEnd   string
	Timeout int
	ID      string
}

// parent starts a child and waits for it, or not.
func parent(ctx context.Context, p childPlan) (string, error) {
	opts := []workflow.ChildOption{workflow.OnEnd(workflow.EndPolicy(p.OnEnd)),
		workflow.ChildAttributes(map[string]string{"kind": "child"}), workflow.ChildMemo(map[string]any{"of": "a <parent> & co"})}
	if p.Timeout > 0 {
		opts = append(opts, workflow.ChildTimeout(time.Duration(p.Timeout)*time.Second))
	}
	if p.ID != "" {
		opts = append(opts, workflow.ChildID(p.ID))
	}
	c, err := workflow.StartChild[string](ctx, "the child", p.Child, p.Sleep, opts...)
	if err != nil {
		return "refused: " + err.Error(), nil
	}
	if p.Sleep < 0 { // leaves it alone
		return c.ID, workflow.Sleep(ctx, "a while", time.Second)
	}
	v, err := c.Wait(ctx)
	var f *workflow.StepError
	if errors.As(err, &f) {
		return fmt.Sprintf("%s: %s", f.Kind, f.Message), nil
	}
	return c.ID + " " + v, err
}

func child(ctx context.Context, seconds int) (string, error) {
	if seconds == 13 {
		return "", errors.New("unlucky")
	}
	if seconds < 0 {
		seconds = 3600
	}
	return "child slept", workflow.Sleep(ctx, "nap", time.Duration(seconds)*time.Second)
}

// generations has a child in each of n+1 iterations.
func generations(ctx context.Context, n int) (string, error) {
	id, err := workflow.Child[string](ctx, "the child", "child", 1)
	if err == nil && n > 0 {
		return "", workflow.ContinueAsNew(ctx, n-1)
	}
	return id, err
}

// deep starts itself until it is refused, and gives how deep that was.
func deep(ctx context.Context, depth int) (int, error) {
	d, err := workflow.Child[int](ctx, "next", "deep", depth+1)
	if errors.Is(err, workflow.ErrLimit) {
		return depth, nil
	}
	return d, err
}

// sender sends two signals to another run.
func sender(ctx context.Context, to string) (string, error) {
	err := workflow.Send(ctx, to, "go", "first")
	if err == nil {
		err = workflow.Send(ctx, to, "go", "second")
	}
	if errors.Is(err, workflow.ErrConflict) {
		return err.Error(), nil
	}
	return "sent", err
}

// counter continues as new n times, a second after the other, or an hour if n is 1000 or more.
func counter(ctx context.Context, n int) (int, error) {
	workflow.Query(ctx, "count", func(add int) (int, error) { return n + add, nil })
	workflow.Query(ctx, "attributes", func(string) (string, error) {
		i := workflow.Info(ctx)
		return i.Attributes["left"] + " " + i.Attributes["a"] + " " + string(i.Memo), nil
	})
	workflow.Query(ctx, "fail", func(int) (int, error) { return 0, errors.New("not today") })
	workflow.Query(ctx, "sleep", func(int) (string, error) {
		return "", workflow.Sleep(ctx, "in a query", time.Second)
	})
	if n == 0 {
		return int(workflow.Info(ctx).Iteration), nil
	}
	if workflow.Info(ctx).Attributes["left"] != "" {
		if err := workflow.SetAttribute(ctx, "left", n); err != nil {
			return 0, err
		}
	}
	pause := time.Second
	if n >= 1000 {
		pause = time.Hour
	}
	if err := workflow.Sleep(ctx, "pause", pause); err != nil {
		return 0, err
	}
	return 0, workflow.ContinueAsNew(ctx, n-1)
}

// overfull continues as new with more than there may be.
func overfull(ctx context.Context, bytes int) (int, error) {
	return 0, workflow.ContinueAsNew(ctx, strings.Repeat("x", bytes))
}

type collected struct {
	Left int
	Got  []string
}

// collect receives one signal per iteration.
func collect(ctx context.Context, c collected) (string, error) {
	if c.Left == 0 {
		return strings.Join(c.Got, ","), nil
	}
	if _, err := workflow.Emit(ctx, "progress", c.Left); err != nil {
		return "", err
	}
	v, err := workflow.Receive[string](ctx, "go")
	if err != nil {
		return "", err
	}
	c.Left, c.Got = c.Left-1, append(c.Got, v)
	return "", workflow.ContinueAsNew(ctx, c)
}

// output emits to two topics around a sleep.
func output(ctx context.Context, n int) (int64, error) {
	var last int64
	for i := range n {
		var err error
		last, err = workflow.Emit(ctx, []string{"even", "odd"}[i%2], i)
		if err != nil {
			return 0, err
		}
		workflow.Log(ctx).Info("emitted", "index", last)
		if err := workflow.Sleep(ctx, fmt.Sprint("pause ", i), time.Minute); err != nil {
			return 0, err
		}
	}
	return last, nil
}

// markers tells what markers give that are asked for again, have the names of steps and sleeps, or are refused.
func markers(ctx context.Context, _ int) (string, error) {
	got := []int{workflow.Version(ctx, "a", 3), workflow.Version(ctx, "a", 4)}
	if err := workflow.Sleep(ctx, "a", time.Hour); err != nil {
		return "", err
	}
	if workflow.Version(ctx, "fraud", 1) >= 1 {
		if _, err := workflow.Do(ctx, "fraud", func(workflow.Step) (bool, error) { return true, nil }); err != nil {
			return "", err
		}
	}
	for _, id := range []string{"a", "fraud", "b", "b", "", "host/c"} {
		got = append(got, workflow.Version(ctx, id, 9))
	}
	return fmt.Sprint(append(got, workflow.Version(ctx, "d", -1), workflow.Version(ctx, "d", 2))), nil
}

// cooperative cleans up when it is cancelled.
func cooperative(ctx context.Context, _ int) (string, error) {
	if err := workflow.SetCancelPolicy(ctx, workflow.CooperativeCancel); err != nil {
		return "", err
	}
	err := workflow.Sleep(ctx, "long", 24*time.Hour)
	if !errors.Is(err, workflow.ErrCancelled) {
		return "slept", err
	}
	clean := context.WithoutCancel(ctx)
	if _, err := workflow.Call[string](clean, "clean up", "host/mail", "cleaned"); err != nil {
		return "", err
	}
	return "", context.Cause(ctx)
}

// stubborn is cancelled and completes all the same.
func stubborn(ctx context.Context, _ int) (string, error) {
	if err := workflow.SetCancelPolicy(ctx, workflow.CooperativeCancel); err != nil {
		return "", err
	}
	<-ctx.Done()
	return "done anyway", nil
}

// saga books three things, the third of which fails, and undoes the others.
func saga(ctx context.Context, fail bool) (out string, err error) {
	var s workflow.Saga
	defer s.Compensate(ctx, &err)
	for _, name := range []string{"flight", "hotel", "car"} {
		if _, err := workflow.Call[string](ctx, "book "+name, "host/book", map[string]any{"what": name, "fail": fail && name == "car"},
			workflow.Attempts(1)); err != nil {
			return "", err
		}
		s.Add(func(ctx context.Context) error {
			_, err := workflow.Call[string](ctx, "cancel "+name, "host/book", map[string]any{"what": "no " + name})
			return err
		})
	}
	return "booked", nil
}

// futures awaits two sleeps as futures.
func futures(ctx context.Context, _ int) (string, error) {
	nap := func(name string, d time.Duration) *workflow.Future[string] {
		return workflow.Async(ctx, func(ctx context.Context) (string, error) { return name, workflow.Sleep(ctx, name, d) })
	}
	a, b := nap("a", time.Hour), nap("b", time.Minute)
	<-b.Done()
	x, err := b.Get(ctx)
	if err != nil {
		return "", err
	}
	y, err := a.Get(ctx)
	return x + y, err
}

// retryable makes a good step, then one that fails as long as the handler says.
func retryable(ctx context.Context, _ int) (string, error) {
	a, err := workflow.Call[string](ctx, "good", "host/mail", "good")
	if err != nil {
		return "", err
	}
	b, err := workflow.Call[string](ctx, "bad", "host/flaky", "bad", workflow.Attempts(2), workflow.Delay(time.Second))
	return a + "," + b, err
}

func attributes(ctx context.Context, _ int) (string, error) {
	for _, kv := range [][2]string{{"stage", "packed"}, {"stage", "shipped"}, {"customer", "ada"}} {
		if err := workflow.SetAttribute(ctx, kv[0], kv[1]); err != nil {
			return "", err
		}
	}
	err := workflow.SetAttribute(ctx, "big", strings.Repeat("x", 2000))
	return err.Error(), workflow.Sleep(ctx, "nap", time.Hour)
}

// typed sets attributes of each type.
func typed(ctx context.Context, n int) (int, error) {
	at := time.Date(2026, 2, 3, 5, 5, 6, 7_008_009, time.FixedZone("", 3600))
	return n, errors.Join(workflow.SetAttribute(ctx, "text", "x"), workflow.SetAttribute(ctx, "n", n+7),
		workflow.SetAttribute(ctx, "big", int64(-9)), workflow.SetAttribute(ctx, "ok", true), workflow.SetAttribute(ctx, "at", at))
}
