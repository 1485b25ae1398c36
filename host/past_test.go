package host_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

// entriesOf returns the number of entries of an iteration, and the error at their end.
func entriesOf(p *prims, id string, iteration uint32) (n int, err error) {
	for _, err = range p.JournalOf(ctx, id, iteration, 0) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// through has a run continue as new the given number of times, a second each.
func through(p *prims, n int) {
	for range n {
		p.Settle()
		p.Advance(time.Second)
	}
	p.Settle()
}

// TestIterationsAreRemoved continues a run as new 40 times: it keeps the configured number of newest iterations,
// reports others as removed, and frees their bytes.
func TestIterationsAreRemoved(t *testing.T) {
	p := newPrims(t)
	id := p.begin("counter", 60)
	other := p.begin("counter", 100)
	keeps := func(id string, first, newest uint32) {
		t.Helper()
		r, err := p.Get(ctx, id)
		if do(t, err); r.FirstIteration != first || r.Iteration != newest {
			t.Fatalf("iterations %d to %d are kept, want %d to %d", r.FirstIteration, r.Iteration, first, newest)
		}
		for i := range newest + 1 {
			n, err := entriesOf(p, id, i)
			if i < first && (n != 0 || !errors.Is(err, host.ErrNotFound) || !strings.Contains(err.Error(), "removed by its retention")) ||
				i >= first && (n == 0 || err != nil) {
				t.Errorf("iteration %d of %d: %d entries, %v", i, newest, n, err)
			}
		}
	}
	through(p, 8)
	keeps(id, 0, 8)
	through(p, 12)
	keeps(id, 20-host.DefaultIterations, 20)
	bytesAt := func() int64 {
		t.Helper()
		u, err := p.Usage(ctx)
		do(t, err)
		return u.Bytes
	}
	before := bytesAt()
	through(p, 10)
	if after := bytesAt(); after > before+before/2 {
		t.Errorf("the runs use %d bytes, and %d ten iterations later", before, after)
	}
	do(t, p.Retentions().Set(ctx, host.Retention{Workflow: "counter", KeepIterations: 3}))
	through(p, 2)
	keeps(id, 32-3, 32)
	p.Crash()
	through(p, 1)
	keeps(id, 33-3, 33)
	do(t, p.Retentions().Set(ctx, host.Retention{Workflow: "counter", KeepIterationsFor: time.Minute}))
	through(p, 4)
	keeps(id, 30, 37)
	do(t, p.Retentions().Set(ctx, host.Retention{Workflow: "counter", KeepIterations: host.AllIterations}))
	through(p, 15)
	keeps(id, 30, 52)
	through(p, 8)
	want(t, result[int](p, id), 60)
	keeps(id, 30, 60)
	do(t, p.Delete(ctx, id))
	do(t, p.Terminate(ctx, other))
	for _, r := range []host.Retention{{KeepIterations: -2}, {KeepIterations: host.MaxIterations + 1}, {KeepIterationsFor: time.Second}} {
		if err := p.Retentions().Set(ctx, r); !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// TestUpdatesOfRemovedIterations answers repeated updates from iterations that are kept, and reports others as
// removed.
func TestUpdatesOfRemovedIterations(t *testing.T) {
	p := newUpdates(t)
	do(t, p.Retentions().Set(ctx, host.Retention{KeepIterations: 1}))
	id := p.begin("again", 0)
	want(t, p.update(id, "which", false, host.WithUpdateID("early")), "0")
	p.signal(id, "next", "")
	want(t, p.answer(id, "which", "early"), "completed 0")
	p.signal(id, "begin", "")
	p.signal(id, "next", "")
	p.Settle()
	if got := p.answer(id, "which", "early"); !strings.Contains(got, "removed by its retention") {
		t.Errorf("the answer of a removed iteration: %q", got)
	}
}

// TestMoveNewestIteration moves a run without its earlier iterations: it continues, and knows its start time and its
// first input. The same holds for an export of a run whose iterations were removed.
func TestMoveNewestIteration(t *testing.T) {
	p, q := newPrims(t), newPrims(t)
	id := p.begin("counter", 30)
	through(p, 25)
	began, err := p.Get(ctx, id)
	do(t, err)
	var whole, newest bytes.Buffer
	do(t, p.Export(ctx, id, &whole, host.ExportOptions{}))
	do(t, p.Export(ctx, id, &newest, host.ExportOptions{Move: true, NewestIteration: true}))
	if whole.Len() <= newest.Len() {
		t.Errorf("the newest iteration takes %d bytes, all %d", newest.Len(), whole.Len())
	}
	for name, file := range map[string][]byte{"all": whole.Bytes(), "the newest": newest.Bytes()} {
		if _, err := host.ReadArchive(bytes.NewReader(file)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	r, err := q.Import(ctx, bytes.NewReader(newest.Bytes()), host.ImportOptions{Adopt: true})
	if do(t, err); r.FirstIteration != 25 || r.Iteration != 25 || !r.Started.Equal(began.Started) {
		t.Errorf("%+v, began %v", r, began.Started)
	}
	q.Advance(time.Hour)
	through(q, 5)
	want(t, result[int](q, id), 30)
	if n, err := entriesOf(q, id, 24); n != 0 || !errors.Is(err, host.ErrNotFound) {
		t.Errorf("an iteration that did not come: %d entries, %v", n, err)
	}
	if n, err := entriesOf(q, id, 26); n == 0 || err != nil {
		t.Errorf("an iteration since: %d entries, %v", n, err)
	}
	s := newPrims(t)
	_, err = s.Import(ctx, bytes.NewReader(whole.Bytes()), host.ImportOptions{})
	if err != nil {
		t.Error(err)
	}
	if n, err := entriesOf(s, id, 20); n == 0 || err != nil {
		t.Errorf("an iteration of the copy: %d entries, %v", n, err)
	}
}
