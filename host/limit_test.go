package host_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// printed is a host with the workflow "print", which takes a minute for any input.
type printed struct {
	*hosttest.Host
	t *testing.T
}

func newPrinted(t *testing.T, opts ...hosttest.Option) *printed {
	h := &printed{hosttest.New(t, opts...), t}
	_, err := h.Upload(ctx, "print", printModule())
	do(t, err)
	return h
}

func printModule() []byte {
	m := wasmgen.New(0)
	return m.Text("print").Text("1m").Call(abi.FnSleepText).Drop().I32(0).Export(abi.ExportRun).Bytes()
}

func (h *printed) limit(concurrency, rate string) {
	h.t.Helper()
	l := host.WorkflowLimit{Workflow: "print"}
	if concurrency != "" {
		l.Concurrency = strings.Split(concurrency, "|")
	}
	if rate != "" {
		l.Rate = strings.Split(rate, "|")
	}
	_, err := h.WorkflowLimits().Set(ctx, l)
	do(h.t, err)
}

func (h *printed) start(id, input string, opts ...host.StartOption) {
	h.t.Helper()
	_, err := h.StartRaw(ctx, "print", []byte(input), append(opts, host.WithRunID(id))...)
	do(h.t, err)
}

// stand checks which runs sleep, and which wait for a slot.
func (h *printed) stand(sleeping, waiting string) {
	h.t.Helper()
	h.Settle()
	for status, want := range map[host.Status]string{host.Sleeping: sleeping, host.Waiting: waiting} {
		all, err := collect(h.Runs(ctx, host.Query{Status: status}))
		do(h.t, err)
		var ids []string
		for _, r := range all {
			ids = append(ids, r.ID)
		}
		slices.Sort(ids)
		if got := strings.Join(ids, " "); got != want {
			h.t.Errorf("%v: %q, want %q", status, got, want)
		}
	}
}

// TestConcurrency has runs wait for each other, across restarts and crashes.
func TestConcurrency(t *testing.T) {
	h := newPrinted(t)
	h.limit("2", "")
	for i := range 5 {
		h.start(fmt.Sprint(i), "{}")
	}
	h.stand("0 1", "2 3 4")
	r, err := h.Get(ctx, "3")
	do(t, err)
	if want := (host.QueuePosition{Position: 2, Same: 3, Waiting: 3, Limit: "2"}); r.QueuePosition == nil || *r.QueuePosition != want || r.Reason != "a slot" {
		t.Errorf("%+v, %q", r.QueuePosition, r.Reason)
	}
	h.Crash()
	h.stand("0 1", "2 3 4")
	h.Advance(time.Minute)
	h.stand("2 3", "4")
	h.Reopen()
	do(t, h.Terminate(ctx, "2"))
	h.stand("3 4", "")
	h.Advance(time.Minute)
	h.stand("", "")
	info, err := h.WorkflowLimits().Get(ctx, "print")
	do(t, err)
	if info.Holding != 0 || info.Waiting != 0 || !slices.Equal(info.Concurrency, []string{"2"}) {
		t.Errorf("%+v", info)
	}
}

// TestLimitKeys limits the runs per customer, and checks the reason of a waiting run.
func TestLimitKeys(t *testing.T) {
	h := newPrinted(t)
	h.limit("1 per input.customer|3", "")
	for i, c := range []string{"a", "a", "b", "c", "d", "a"} {
		h.start(fmt.Sprint(i), fmt.Sprintf(`{"customer":%q}`, c))
	}
	h.stand("0 2 3", "1 4 5")
	r, err := h.Get(ctx, "5")
	do(t, err)
	if want := (host.QueuePosition{Position: 2, Same: 2, Waiting: 3, Limit: "1 per input.customer"}); r.QueuePosition == nil || *r.QueuePosition != want ||
		r.Reason != `a slot with input.customer = "a"` {
		t.Errorf("%+v, %q", r.QueuePosition, r.Reason)
	}
	do(t, h.Cancelled("1"))
	h.stand("0 2 3", "4 5")
	h.limit("2 per input.customer|4", "") // while it is full
	h.stand("0 2 3 5", "4")               // run 5 comes before 4: customer a has waited longer
	do(t, h.WorkflowLimits().Delete(ctx, "print"))
	h.stand("0 2 3 4 5", "")
	if err := h.WorkflowLimits().Delete(ctx, "print"); !errors.Is(err, host.ErrNotFound) {
		t.Error(err)
	}
	h.Advance(time.Minute)
	h.stand("", "")
}

// Cancelled cancels a run that has not begun, which ends it.
func (h *printed) Cancelled(id string) error {
	_, err := h.Cancel(ctx, id)
	return err
}

// TestRate starts a limited number of runs per window. The rest start by themselves, also after a restart.
func TestRate(t *testing.T) {
	h := newPrinted(t)
	h.limit("", "2/10m per input.tenant")
	for i := range 5 {
		h.start(fmt.Sprint(i), `{"tenant":7}`)
	}
	h.start("other", `{"tenant":8}`)
	h.stand("0 1 other", "2 3 4")
	h.Advance(9 * time.Minute)
	h.stand("", "2 3 4")
	h.Crash()
	h.Advance(time.Minute)
	h.stand("2 3", "4")
	h.Advance(10 * time.Minute)
	h.stand("4", "")
	h.Advance(20 * time.Minute)
	if next, ok := h.Settle(); ok {
		t.Errorf("something is due at %v", next)
	}
}

// A delayed run asks for a slot at its start time, a failed run when it is retried. A waiting run can time out.
func TestSlotsOfOthers(t *testing.T) {
	h := newPrinted(t)
	h.limit("1", "")
	h.start("later", "{}", host.WithStartIn(time.Hour))
	h.start("first", "{}")
	h.start("late", "{}", host.WithTimeout(30*time.Second))
	h.start("paused", "{}")
	h.start("last", "{}")
	_, err := h.Pause(ctx, "paused")
	do(t, err)
	h.stand("first later", "last late")
	h.Advance(40 * time.Second)
	r, err := h.Get(ctx, "late")
	do(t, err)
	want(t, r.Status, host.Failed)
	h.Advance(time.Minute)
	h.stand("last later", "") // paused runs that wait are passed over
	_, err = h.Unpause(ctx, "paused")
	do(t, err)
	h.stand("last later", "paused")
	do(t, h.Retry(ctx, "late", 0))
	h.stand("last later", "late paused")
	h.Advance(time.Minute)
	h.stand("later paused", "late")
	_, err = h.Pause(ctx, "paused") // it has begun, and holds its slot
	do(t, err)
	h.Advance(10 * time.Minute)
	h.stand("later", "late")
	_, err = h.Unpause(ctx, "paused")
	do(t, err)
	h.Advance(10 * time.Minute)
	h.stand("later", "")
	h.Advance(30 * time.Minute)
	h.stand("later", "")
	h.start("later", "{}", host.WithStartIn(time.Hour), host.OnConflict(host.ConflictTerminate))
	h.start("again", "{}")
	h.stand("again later", "")
	re, err := h.Restart(ctx, "first", "repeated", "")
	do(t, err)
	want(t, re.ID, "repeated")
	h.stand("again later", "repeated")
	h.Advance(2 * time.Hour)
	h.stand("", "")
}

// Runs that are paused while they wait for a slot are passed over, and get their position back when they are
// unpaused, also after crashes. A run that is paused at the moment of its admission returns its slot.
func TestPausedRunsLetOthersPass(t *testing.T) {
	for _, crash := range []bool{false, true} {
		h := newPrinted(t)
		restart := func() {
			t.Helper()
			if crash {
				h.Crash()
				h.Settle()
			}
		}
		h.limit("1", "")
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			h.start(id, "{}")
			h.Settle()
		}
		h.stand("a", "b c d e")
		for _, id := range []string{"b", "d"} {
			_, err := h.Pause(ctx, id)
			do(t, err)
		}
		h.Settle()
		restart()
		h.stand("a", "c e")
		h.Advance(time.Minute)
		h.stand("c", "e")
		for _, id := range []string{"d", "b"} {
			_, err := h.Unpause(ctx, id)
			do(t, err)
			h.Settle()
		}
		restart()
		h.stand("c", "b d e")
		_, err := h.Pause(ctx, "b")
		do(t, err)
		h.Settle()
		do(t, h.Terminate(ctx, "b")) // its place is gone
		h.Advance(time.Minute)
		h.stand("d", "e")
		h.Advance(2 * time.Minute)
		h.stand("", "")
	}
}

func TestRunPriority(t *testing.T) {
	h := newPrinted(t)
	h.limit("1", "")
	for i, p := range []int{0, -1, 0, 5} {
		h.start(fmt.Sprint(i), "{}", host.WithPriority(p))
		h.Settle() // the first one has begun
	}
	for _, next := range []string{"0", "3", "2", "1"} {
		h.Settle()
		r, err := h.Get(ctx, next)
		do(t, err)
		want(t, r.Status, host.Sleeping)
		h.Advance(time.Minute)
	}
	if _, err := h.StartRaw(ctx, "print", nil, host.WithPriority(host.MaxPriority+1)); !errors.Is(err, host.ErrInvalid) {
		t.Error(err)
	}
}

func TestWrongLimits(t *testing.T) {
	h := newPrinted(t)
	for _, l := range []host.WorkflowLimit{{Workflow: "print"}, {Workflow: "", Concurrency: []string{"1"}},
		{Workflow: "print", Concurrency: []string{"0"}}, {Workflow: "print", Rate: []string{"5"}},
		{Workflow: "print", Concurrency: []string{"1", "2"}}, {Workflow: "print", Concurrency: []string{"1 per customer"}}} {
		if _, err := h.WorkflowLimits().Set(ctx, l); !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if _, err := h.WorkflowLimits().Get(ctx, "print"); !errors.Is(err, host.ErrNotFound) {
		t.Error(err)
	}
	h.limit("7", "100/1m")
	all, err := h.WorkflowLimits().List(ctx)
	do(t, err)
	if len(all) != 1 || all[0].Workflow != "print" || all[0].Rate[0] != "100/1m" {
		t.Errorf("%+v", all)
	}
}

// TestLimitOfTwoHosts shares a store between two hosts: a limit applies to both together.
func TestLimitOfTwoHosts(t *testing.T) {
	p := newPair(t, memstore.New().Open(), (&ledger{inputs: map[string]string{}}).effect)
	_, err := p.hosts[0].Upload(ctx, "nap", napModule())
	do(t, err)
	_, err = p.hosts[1].WorkflowLimits().Set(ctx, host.WorkflowLimit{Workflow: "nap", Concurrency: []string{"1"}})
	do(t, err)
	const runs = 4
	for i := range runs {
		p.any(func(h *host.Host) error {
			_, err := h.StartRaw(ctx, "nap", []byte("20ms"), host.WithRunID(fmt.Sprint("r", i)))
			return err
		})
	}
	var all []host.Run
	for i := range runs {
		p.any(func(h *host.Host) error {
			_, err := h.Wait(ctx, fmt.Sprint("r", i))
			return err
		})
		r, err := p.hosts[0].Get(ctx, fmt.Sprint("r", i))
		do(t, err)
		want(t, r.Status, host.Completed)
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b host.Run) int { return a.Started.Compare(b.Started) })
	for i := 1; i < len(all); i++ {
		if all[i].Started.Before(all[i-1].Ended) {
			t.Errorf("%s began at %v, %s ended at %v", all[i].ID, all[i].Started, all[i-1].ID, all[i-1].Ended)
		}
	}
}

// TestVerifyQueue finds a queue whose counters do not match its cells.
func TestVerifyQueue(t *testing.T) {
	dir := t.TempDir()
	open := func() store.Store {
		s, err := pebblestore.Open(filepath.Join(dir, "store"), pebblestore.Options{})
		do(t, err)
		return s
	}
	h := newPrinted(t, hosttest.WithStore(open))
	h.limit("1", "")
	h.start("a", "{}")
	h.start("b", "{}")
	h.stand("a", "b")
	h.Stop()
	verify := func() *host.VerifyReport {
		r, err := host.Verify(ctx, dir, host.Config{Interpreter: true}, host.VerifyOptions{})
		do(t, err)
		return r
	}
	if r := verify(); !r.Sound() {
		t.Fatalf("%+v", r)
	}
	s, queue := open(), store.RunKey{ID: "print"}
	p, err := s.Acquire(ctx, queue.Partition(), "test", 0)
	do(t, err)
	cells, err := s.Cells(ctx, store.CellQuery{Queue: queue, From: []byte("q"), Limit: 1})
	do(t, err)
	changed := []store.Cell{{Key: []byte("q"), Value: []byte(`{"next":9,"waiting":7}`)}}
	do(t, s.Commit(ctx, []store.Group{{Partition: p, Queues: []store.QueueSet{{Queue: queue, Before: cells[0], Cells: changed}}}}))
	do(t, s.Close())
	r := verify()
	if r.Sound() || r.Problems[0].Kind != "queue" || !strings.Contains(r.Problems[0].Text, "how many runs wait") {
		t.Errorf("%+v", r.Problems)
	}
}
