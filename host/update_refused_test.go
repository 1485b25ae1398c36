package host_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

// TestPausedRunIsAsked: a paused run answers at its current point, whatever has arrived: queries, and updates, of
// which several are accepted.
func TestPausedRunIsAsked(t *testing.T) {
	p := newUpdates(t)
	id := p.begin("cart", nil)
	p.accepted(id, "add", "0", item{"cup", 1})
	do(t, errorOf(p.Pause(ctx, id)))
	for n := range 3 {
		p.accepted(id, "add", fmt.Sprint(n+1), item{fmt.Sprint("pen ", n), 2})
		want(t, p.query(id, "names"), `"cup"`)
		p.Crash()
	}
	want(t, p.query(id, "names"), `"cup"`)
	want(t, len(p.mails), 1)
	do(t, errorOf(p.Unpause(ctx, id)))
	p.Settle()
	want(t, p.answer(id, "add", "3"), "completed 7")
	want(t, len(p.mails), 4)
	p.signal(id, "done", "")
	want(t, len(strings.Split(result[string](p, id), ",")), 5)
}

// ending is a context that ends when it is checked for the n-th time.
type ending struct {
	context.Context
	left *atomic.Int64
	end  context.CancelFunc
}

func (e ending) look() {
	if e.left.Add(-1) == 0 {
		e.end()
	}
}

func (e ending) Done() <-chan struct{} {
	e.look()
	return e.Context.Done()
}

func (e ending) Err() error {
	e.look()
	return e.Context.Err()
}

// TestUpdateWhoseSenderGoes cancels the context of a sender at every possible moment. The error has the id with which
// the update can be repeated, and is not a refusal.
func TestUpdateWhoseSenderGoes(t *testing.T) {
	p := newUpdates(t)
	id := p.begin("cart", nil)
	for n := 1; ; n++ {
		own, cancel := context.WithCancel(ctx)
		e := ending{own, &atomic.Int64{}, cancel}
		e.left.Store(int64(n))
		u, err := p.Update(e, id, "say", "hello")
		cancel()
		if err == nil { // on a busy machine one update may check its context only a few times, and the next one more often
			if n < 5 {
				continue
			}
			break
		}
		if !errors.Is(err, context.Canceled) || u.ID == "" || u.Name != "say" || u.Run != id {
			t.Fatalf("%d: %+v %v", n, u, err)
		}
		if ue, ok := errors.AsType[*host.UpdateError](err); ok {
			t.Fatalf("%d: %v", n, ue)
		}
		again, err := p.Update(ctx, id, "say", "hello", host.WithUpdateID(u.ID))
		if err != nil || string(again.Result) != `"hello"` {
			t.Fatalf("%d: %+v %v", n, again, err)
		}
	}
}

// TestUpdateTooEarly: an update waits for a run to begin. If that takes too long, the sender is told to repeat it
// later.
func TestUpdateTooEarly(t *testing.T) {
	p := newUpdates(t)
	const later = 1000 * time.Hour // longer than the update could take to arrive
	r, err := p.Start(ctx, "cart", nil, host.WithStartIn(later))
	do(t, err)
	got := make(chan error, 1)
	go func() {
		_, err := p.Update(ctx, r.ID, "add", item{"pen", 1})
		got <- err
	}()
	for {
		p.Advance(time.Second)
		select {
		case err := <-got:
			if !errors.Is(err, host.ErrBusy) || !strings.Contains(err.Error(), "the run has not begun") {
				t.Error(err)
			}
		default:
			continue
		}
		break
	}
	p.Advance(later)
	want(t, p.update(r.ID, "add", item{"pen", 1}), "1")
}

// TestUpdateFailsLoudly truncates the error of a handler that is too long to be recorded.
func TestUpdateFailsLoudly(t *testing.T) {
	p := newUpdates(t)
	id := p.begin("cart", nil)
	p.accepted(id, "loud", "1", "x")
	if got := p.answer(id, "loud", "1"); !strings.HasSuffix(got, `" failed: `+strings.Repeat("x", 64<<10)+"…") {
		t.Errorf("%d bytes: %.200s", len(got), got)
	}
}

// TestUpdateWhoseHandlerIsGone refuses an update after its handler's context has ended.
func TestUpdateWhoseHandlerIsGone(t *testing.T) {
	p := newUpdates(t)
	id := p.begin("scoped", nil)
	want(t, p.update(id, "set", "a"), `"set a"`)
	p.signal(id, "next", "")
	_, err := p.Update(ctx, id, "set", "b", host.UntilAccepted())
	if u, ok := errors.AsType[*host.UpdateError](err); !ok || !u.Refused || !strings.Contains(err.Error(), "no handler") {
		t.Fatal(err)
	}
	p.Crash()
	p.signal(id, "next", "")
	want(t, p.update(id, "set", "c"), `"again c"`)
	p.signal(id, "next", "")
	want(t, result[string](p, id), "done")
}

// TestQueryNames refuses queries with names that no workflow can have.
func TestQueryNames(t *testing.T) {
	p := newUpdates(t)
	id := p.begin("cart", nil)
	for _, name := range []string{"", "host/update/add", "a\nb", strings.Repeat("x", 257)} {
		if b, err := p.Query(ctx, id, name, item{"pen", 1}); !errors.Is(err, host.ErrInvalid) {
			t.Errorf("query %.20q: %s %v", name, b, err)
		}
	}
}

// TestStartedOfChain shows when a run began, in every iteration, also after a move.
func TestStartedOfChain(t *testing.T) {
	p := newPrims(t)
	r, err := p.Start(ctx, "counter", 3, host.WithStartIn(time.Minute))
	do(t, err)
	p.Advance(time.Minute)
	began := p.Clock.Now()
	check := func(q *prims) {
		t.Helper()
		now, err := q.Get(ctx, r.ID)
		do(t, err)
		want(t, now.Started.Equal(began), true)
	}
	for range 2 {
		check(p)
		p.Advance(time.Second)
		p.Crash()
	}
	check(p)
	file := move(t, p.Host.Host, r.ID)
	q := newPrims(t)
	q.Clock.Set(p.Clock.Now())
	adopt(t, q.Host, file)
	check(q)
	q.Advance(time.Hour)
	check(q)
	want(t, result[int](q, r.ID), 3)
}
