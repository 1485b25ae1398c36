package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// prims is a test host with the workflows of testdata/primitives.
type prims struct {
	*hosttest.Host
	t     *testing.T
	mu    sync.Mutex
	mails []string
	fails int // how often host/flaky still fails
}

func newPrims(t *testing.T, opts ...hosttest.Option) *prims {
	p := &prims{t: t}
	p.Host = hosttest.New(t, append([]hosttest.Option{hosttest.WithHandlers(func(h *host.Host) {
		host.HandleStep(h, "mail", func(_ context.Context, text string) (string, error) {
			p.note(text)
			return text, nil
		})
		host.HandleStep(h, "flaky", func(_ context.Context, text string) (string, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.fails--
			if p.fails >= 0 {
				return "", errors.New("out of order")
			}
			return text, nil
		})
		host.HandleStep(h, "book", func(_ context.Context, in struct {
			What string
			Fail bool
		}) (string, error) {
			if in.Fail {
				return "", errors.New("no " + in.What + " left")
			}
			p.note(in.What)
			return in.What, nil
		})
	})}, opts...)...)
	if _, err := p.Upload(ctx, "", hosttest.Build(t, "testdata/primitives"), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *prims) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mails = append(p.mails, text)
}

func (p *prims) begin(workflow string, input any, opts ...host.StartOption) string {
	p.t.Helper()
	r, err := p.Start(ctx, workflow, input, opts...)
	if err != nil {
		p.t.Fatal(err)
	}
	p.Settle()
	return r.ID
}

func (p *prims) signal(id, name string, payload any, opts ...host.SignalOption) {
	p.t.Helper()
	if err := p.Signal(ctx, id, name, payload, opts...); err != nil {
		p.t.Fatal(err)
	}
	p.Settle()
}

func result[T any](p *prims, id string) T {
	p.t.Helper()
	p.Finish(id)
	v, err := host.Result[T](ctx, p.Host.Host, id)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.Replay(ctx, id); err != nil {
		p.t.Fatal(err)
	}
	return v
}

func (p *prims) status(id string) host.Status {
	p.t.Helper()
	r, err := p.Get(ctx, id)
	if err != nil {
		p.t.Fatal(err)
	}
	return r.Status
}

func TestSignalIsKept(t *testing.T) {
	p := newPrims(t)
	id := p.begin("receive", 3, host.WithStartIn(time.Hour))
	p.signal(id, "go", "a")
	p.signal(id, "other", "x")
	p.signal(id, "go", "b")
	p.Reopen()
	p.Advance(time.Hour)
	want(t, p.status(id), host.Waiting)
	p.signal(id, "go", "c")
	want(t, result[string](p, id), "a,b,c")
}

func TestSignalToAWaiter(t *testing.T) {
	p := newPrims(t)
	id := p.begin("receive", 1)
	r, err := p.Get(ctx, id)
	if err != nil || r.Status != host.Waiting || r.Reason != "signal_wait go" || p.Stats().Instances != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	p.signal(id, "go", "now")
	want(t, result[string](p, id), "now")
}

func TestSignalTimeout(t *testing.T) {
	p := newPrims(t)
	late, soon := p.begin("patient", 60), p.begin("patient", 60)
	p.Advance(59 * time.Second)
	p.signal(soon, "go", "in time")
	p.Advance(time.Second)
	want(t, result[string](p, late), "timeout")
	want(t, result[string](p, soon), "in time")
}

// TestTimeoutWins: the timeout expires while the host is down, and the signal comes at the restart.
func TestTimeoutWins(t *testing.T) {
	p := newPrims(t)
	id := p.begin("patient", 60)
	p.Stop()
	p.Clock.Set(p.Clock.Now().Add(24 * time.Hour))
	p.Reopen()
	if err := p.Signal(ctx, id, "go", "too late"); err != nil && !errors.Is(err, host.ErrTerminal) {
		t.Fatal(err)
	}
	want(t, result[string](p, id), "timeout")
}

func TestSignalToAnEndedRun(t *testing.T) {
	p := newPrims(t)
	completed, terminated := p.begin("patient", 1), p.begin("receive", 1)
	p.Finish(completed)
	if err := p.Terminate(ctx, terminated); err != nil {
		t.Fatal(err)
	}
	for id, status := range map[string]host.Status{completed: host.Completed, terminated: host.Terminated} {
		if err := p.Signal(ctx, id, "go", "x"); !errors.Is(err, host.ErrTerminal) {
			t.Fatal(err)
		}
		p.Advance(time.Hour)
		want(t, p.status(id), status)
	}
}

func TestSignalKeys(t *testing.T) {
	p := newPrims(t)
	id := p.begin("receive", 2)
	p.signal(id, "go", "a", host.WithIdempotencyKey("k"))
	p.signal(id, "go", "a", host.WithIdempotencyKey("k"))
	if err := p.Signal(ctx, id, "go", "b", host.WithIdempotencyKey("k")); !errors.Is(err, host.ErrConflict) {
		t.Fatal(err)
	}
	p.Reopen()
	p.signal(id, "go", "a", host.WithIdempotencyKey("k"))
	p.signal(id, "go", "b", host.WithIdempotencyKey("l"))
	want(t, result[string](p, id), "a,b")
	for name, err := range map[string]error{
		"name": p.Signal(ctx, id, "", 1), "key": p.Signal(ctx, id, "go", 1, host.WithIdempotencyKey("a\n")),
		"payload": p.Signal(ctx, id, "go", make(chan int)),
	} {
		if !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := p.SignalRaw(ctx, id, "go", make([]byte, 2<<20)); !errors.Is(err, host.ErrLimit) {
		t.Error(err)
	}
	if err := p.Signal(ctx, "nobody", "go", 1); !errors.Is(err, host.ErrNotFound) {
		t.Error(err)
	}
}

func TestSignalBacklog(t *testing.T) {
	p := newPrims(t)
	id := p.begin("withdraws", 0)
	var err error
	for range 20 {
		err = p.SignalRaw(ctx, id, "never", make([]byte, 1<<20))
		if err != nil {
			break
		}
	}
	if !errors.Is(err, host.ErrBusy) || !strings.Contains(err.Error(), "4194304") {
		t.Fatal(err)
	}
	for range 20 {
		err = p.SignalRaw(ctx, id, "nor this", make([]byte, 1<<19))
		if err != nil {
			break
		}
	}
	if !errors.Is(err, host.ErrBusy) {
		t.Fatal(err)
	}
	if err := p.Signal(ctx, id, "third", "small"); !errors.Is(err, host.ErrBusy) || !strings.Contains(err.Error(), "8388608") {
		t.Fatal(err)
	}
}

func TestSignalsBySelect(t *testing.T) {
	p := newPrims(t)
	id := p.begin("selects", 0)
	p.signal(id, "go", "a")
	p.Advance(time.Hour)
	p.signal(id, "go", "b")
	want(t, result[string](p, id), "a,hour,b")
}

func TestWithdrawnWaitTakesNone(t *testing.T) {
	p := newPrims(t)
	id := p.begin("withdraws", 0)
	p.Advance(time.Minute)
	p.signal(id, "go", "later")
	want(t, result[string](p, id), "later")
}

func TestSignalBetweenRuns(t *testing.T) {
	p := newPrims(t)
	to := p.begin("receive", 2)
	from := p.begin("sender", to)
	want(t, result[string](p, from), "sent")
	want(t, result[string](p, to), "first,second")
	for _, gone := range []string{to, "nobody"} {
		text := result[string](p, p.begin("sender", gone))
		if !strings.Contains(text, gone) && !strings.Contains(text, "ended") {
			t.Fatal(text)
		}
	}
}

func TestHooks(t *testing.T) {
	p := newPrims(t)
	id := p.begin("approval", "")
	want(t, len(p.mails), 1)
	token := p.mails[0]
	if len(token) < 26 || !strings.HasSuffix(token, id) {
		t.Fatalf("token %q", token)
	}
	p.Reopen()
	for _, wrong := range []string{"", "x", token + "x", "0" + token[1:], token[:26], "nobody-has-this"} {
		if _, err := p.Hooks().Deliver(ctx, wrong, []byte(`{"By":"eve"}`)); !errors.Is(err, host.ErrNotFound) || strings.Contains(err.Error(), id) {
			t.Fatalf("token %q: %v", wrong, err)
		}
	}
	reply, err := p.Hooks().Deliver(ctx, token, []byte(`{"By":"ada"}`))
	if err != nil || reply != (host.HookReply{Status: 200, ContentType: "text/plain", Body: "thank you"}) {
		t.Fatal(reply, err)
	}
	want(t, result[string](p, id), "approved by ada")
	if _, err := p.Hooks().Deliver(ctx, token, nil); !errors.Is(err, host.ErrNotFound) {
		t.Fatal(err) // it died with its run
	}
}

func TestChosenTokens(t *testing.T) {
	p := newPrims(t)
	first := p.begin("approval", "order-42-approval")
	second := p.begin("approval", "order-42-approval")
	if text := result[string](p, second); !strings.Contains(text, fmt.Sprintf("held by run %q", first)) {
		t.Fatal(text)
	}
	p.Reopen()
	if _, err := p.Hooks().Deliver(ctx, "order-42-approval", []byte(`{"By":"bob"}`)); err != nil {
		t.Fatal(err)
	}
	want(t, result[string](p, first), "approved by bob")
	third := p.begin("approval", "order-42-approval") // it is free again
	if _, err := p.Hooks().Deliver(ctx, "order-42-approval", []byte(`{"By":"eve"}`)); err != nil {
		t.Fatal(err)
	}
	want(t, result[string](p, third), "approved by eve")
	fourth := p.begin("approval", "order-42-approval")
	want(t, result[string](p, fourth), "nobody answered")
	if r := p.Finish(p.begin("approval", "short")); r.Status != host.Failed {
		t.Fatalf("a token of 5 bytes: %+v", r)
	}
}

func TestOutputOnce(t *testing.T) {
	p := newPrims(t)
	id := p.begin("output", 4)
	read := func(topic string, from int64) (list []string) {
		t.Helper()
		for c, err := range p.Output(ctx, id, topic, from) {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, fmt.Sprintf("%d %s %s", c.Index, c.Topic, c.Data))
		}
		return list
	}
	want(t, fmt.Sprint(read("", 0)), "[0 even 0]")
	p.Crash()
	p.Advance(2 * time.Minute)
	want(t, fmt.Sprint(read("", 0)), "[0 even 0 1 odd 1 2 even 2]")
	want(t, fmt.Sprint(read("even", 0)), "[0 even 0 2 even 2]")
	want(t, fmt.Sprint(read("", -1)), "[2 even 2]")
	followed := make(chan []string)
	go func() {
		var list []string
		for c, err := range p.FollowOutput(ctx, id, "odd", 0) {
			if err != nil {
				break
			}
			list = append(list, string(c.Data))
		}
		followed <- list
	}()
	want(t, result[int64](p, id), 3)
	if got := <-followed; !slices.Equal(got, []string{"1", "3"}) { // closed at the end
		t.Fatal(got)
	}
	lines, err := p.Logs(ctx, id, 0, 100)
	if err != nil || len(lines) != 4 {
		t.Fatalf("%d log lines after replays, %v", len(lines), err)
	}
}

func TestAttributes(t *testing.T) {
	p := newPrims(t)
	id := p.begin("attributes", 0, host.WithAttributes(map[string]string{"region": "eu"}))
	p.begin("receive", 1, host.WithAttributes(map[string]string{"region": "us"}))
	r, err := p.Get(ctx, id)
	if err != nil || len(r.Attributes) != 3 || r.Attributes["stage"] != "shipped" {
		t.Fatalf("%+v %v", r, err)
	}
	find := func(a map[string]string) (n int) {
		for range p.Runs(ctx, host.Query{Attributes: a}) {
			n++
		}
		return n
	}
	want(t, find(map[string]string{"region": "eu"}), 1)
	want(t, find(map[string]string{"region": "eu", "stage": "shipped"}), 1)
	want(t, find(map[string]string{"region": "eu", "stage": "packed"}), 0)
	want(t, find(nil), 2)
	if text := result[string](p, id); !strings.Contains(text, "2000 bytes") {
		t.Fatal(text)
	}
	if _, err := p.Start(ctx, "receive", 1, host.WithAttributes(map[string]string{"a\n": ""})); !errors.Is(err, host.ErrInvalid) {
		t.Fatal(err)
	}
}
