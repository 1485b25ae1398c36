package shard

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// world is a shard with a Port that records requests and answers when the test says so, over a real store. After
// every call it checks the invariants: see check.
type world struct {
	begun []*Batch // commits that are on their way
	t     *testing.T
	now   int64
	data  *memstore.Data
	store *memstore.Store
	s     *Shard

	handlers map[string]bool // handlers with a place for every attempt; other handlers have none
	asks     map[store.RunKey][]run.Ask
	returned []any
	unread   map[store.RunKey]error // runs that cannot be read

	loads     []load
	dues      []due
	aheads    []due
	inboxes   []inboxRead
	carried   []store.Command
	refusals  []refusal
	acquires  []*Partition
	rung      []TimerKey
	asked     []asked
	orders    map[*run.Lease][]run.Order
	yields    []*run.Lease
	halts     map[*run.Lease]error
	starts    []*run.Attempt
	tells     []*run.Attempt
	drops     []*run.Attempt
	whiles    []*while
	durables  []*store.RunCommit
	kicks     []store.PartitionID
	reports   []Report
	replies   []*reply
	committed map[store.RunKey]store.Seq
}

type load struct {
	p   *Partition
	key store.RunKey
}

type due struct {
	p     *Partition
	after store.WakeKey
	until int64
	limit int
}

type inboxRead struct {
	p     *Partition
	after store.CommandSeq
	limit int
}

type refusal struct {
	p      *Partition
	cmd    store.Command
	answer *store.Command
}

type asked struct {
	l     *run.Lease
	class Class
}

// reply is the answer to an event.
type reply struct {
	key    store.RunKey
	calls  int
	answer run.Answer
	err    error
}

const epoch = 1_800_000_000_000

var limits = Limits{Woken: 100, Starts: 100, StartBytes: 1 << 20, KeptBytes: 1 << 20, Timers: 1000, Portion: 10,
	StartLinger: 50 * time.Millisecond}

func newWorld(t *testing.T, limits Limits, ids ...store.PartitionID) *world {
	t.Helper()
	data := memstore.New()
	w := &world{t: t, now: epoch, data: data, store: data.Open(), handlers: map[string]bool{"charge": true},
		asks: map[store.RunKey][]run.Ask{}, unread: map[store.RunKey]error{}, orders: map[*run.Lease][]run.Order{}, halts: map[*run.Lease]error{},
		committed: map[store.RunKey]store.Seq{}}
	w.s = New(w, limits)
	w.s.SetActive(w.now, true)
	for _, id := range ids {
		w.acquire(id)
	}
	w.kicks = nil
	t.Cleanup(w.check)
	return w
}

func (w *world) acquire(id store.PartitionID) *Partition {
	w.t.Helper()
	owned, err := w.store.Acquire(context.Background(), id, "here", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	w.s.Acquired(id, owned)
	return w.s.Partition(id)
}

// keyIn returns the n-th key of a partition.
func keyIn(id store.PartitionID, n int) store.RunKey {
	for i := 0; ; i++ {
		k := store.RunKey{ID: fmt.Sprint("run-", i)}
		if k.Partition() != id {
			continue
		}
		n--
		if n < 0 {
			return k
		}
	}
}

// Ask gives an attempt a place if there is one, and otherwise records that it waits.
func (w *world) Ask(a run.Ask) (place any, v run.Verdict) {
	switch {
	case a.Handler == "":
		return nil, run.Begins
	case w.handlers[a.Handler]:
		return a.Handler, run.Begins
	case !slices.ContainsFunc(w.asks[a.Run], func(b run.Ask) bool { return b.Handle == a.Handle }):
		w.asks[a.Run] = append(w.asks[a.Run], a)
	}
	return nil, run.Queues
}

func (w *world) Withdraw(key store.RunKey, handle int64) {
	w.asks[key] = slices.DeleteFunc(w.asks[key], func(a run.Ask) bool { return a.Handle == handle })
	if len(w.asks[key]) == 0 {
		delete(w.asks, key)
	}
}

func (w *world) WithdrawRun(key store.RunKey) { delete(w.asks, key) }

func (w *world) WithdrawPartition(partition store.PartitionID) {
	maps.DeleteFunc(w.asks, func(key store.RunKey, _ []run.Ask) bool { return key.Partition() == partition })
}

func (w *world) Return(place any)           { w.returned = append(w.returned, place) }
func (w *world) Asks(key store.RunKey) bool { return len(w.asks[key]) > 0 }

// admit gives a place to the first attempt of a run that waits for one.
func (w *world) admit(key store.RunKey) {
	a := w.asks[key][0]
	w.Withdraw(key, a.Handle)
	w.s.Admitted(w.now, key, run.Admitted{Handle: a.Handle, Handler: a.Handler, Place: a.Handler})
}

func (w *world) Load(p *Partition, key store.RunKey) { w.loads = append(w.loads, load{p, key}) }

func (w *world) Due(p *Partition, after store.WakeKey, until int64, limit int) {
	w.dues = append(w.dues, due{p, after, until, limit})
}

func (w *world) Ahead(p *Partition, unixMs int64, _ bool) {
	w.aheads = append(w.aheads, due{p: p, until: unixMs})
}

func (w *world) Inbox(p *Partition, after store.CommandSeq, limit int) {
	w.inboxes = append(w.inboxes, inboxRead{p, after, limit})
}

func (w *world) Carry(_ *Partition, cmd store.Command, _ run.Message) {
	w.carried = append(w.carried, cmd)
}

func (w *world) Refuse(p *Partition, cmd store.Command, answer *store.Command) {
	w.refusals = append(w.refusals, refusal{p, cmd, answer})
}

func (w *world) Ring(k TimerKey) { w.rung = append(w.rung, k) }

func (w *world) Acquire(p *Partition)            { w.acquires = append(w.acquires, p) }
func (w *world) Activate(l *run.Lease, c Class)  { w.asked = append(w.asked, asked{l, c}) }
func (w *world) Order(l *run.Lease, o run.Order) { w.orders[l] = append(w.orders[l], o) }
func (w *world) Yield(l *run.Lease)              { w.yields = append(w.yields, l) }
func (w *world) Halt(l *run.Lease, cause error)  { w.halts[l] = cause }
func (w *world) Tell(a *run.Attempt)             { w.tells = append(w.tells, a) }
func (w *world) Drop(a *run.Attempt)             { w.drops = append(w.drops, a) }
func (w *world) Kick(p store.PartitionID)        { w.kicks = append(w.kicks, p) }
func (w *world) Forgot(store.RunKey)             {}
func (w *world) Report(n Report)                 { w.reports = append(w.reports, n) }

// Start checks that the cause of the attempt is durable.
func (w *world) Start(a *run.Attempt) {
	w.starts = append(w.starts, a)
	st, err := w.store.State(context.Background(), a.Run.Run)
	if err != nil || int(st.Length) < len(a.Entries) {
		w.t.Errorf("attempt of %q starts with %d entries, of which %d are durable: %v", a.Name, len(a.Entries), st.Length, err)
	}
}

func (w *world) Durable(c *store.RunCommit) { w.durables = append(w.durables, c) }

// deliver delivers an event, and checks its reply.
func (w *world) deliver(key store.RunKey, ev run.Event) *reply {
	r := &reply{key: key}
	w.replies = append(w.replies, r)
	w.s.Deliver(w.now, key, ev, func(a run.Answer, err error) {
		r.calls++
		if r.calls > 1 {
			w.t.Errorf("%T of %q is answered %d times", ev, key.ID, r.calls)
		}
		r.answer, r.err = a, err
		if st, errState := w.store.State(context.Background(), key); err == nil && (a.Changed || a.Created) {
			if errState != nil || !st.Deleted && (st.Incarnation != a.State.Incarnation || st.Length < a.State.Length) {
				w.t.Errorf("%T of %q is answered with %d entries, of which %d are durable", ev, key.ID, a.State.Length, st.Length)
			}
		}
	})
	w.check()
	return r
}

func newRun(key store.RunKey) run.NewRun {
	return run.NewRun{Key: key, Workflow: "order", Version: 1, Module: sha256.Sum256([]byte("v1")), Input: []byte(`1`),
		InputDigest: run.InputDigest([]byte(`1`)), Seed: make([]byte, 32), Incarnation: store.Incarnation{1}}
}

func (w *world) start(key store.RunKey) *reply { return w.deliver(key, run.Start{New: newRun(key)}) }

// check checks what holds after every call.
func (w *world) check() {
	w.t.Helper()
	busy, fresh, waiting, kept := 0, 0, 0, int64(0)
	for _, p := range w.s.mem.order {
		for key, rs := range p.residents {
			if rs.woken.In() {
				busy++
			}
			if rs.woken.Fresh() {
				fresh++
			}
			if rs.start.Asked() {
				waiting++
			}
			if rs.place != nil {
				kept += rs.Size()
			}
			if inFlight := w.flying(rs); rs.Flying() != inFlight {
				w.t.Errorf("run %q: its commit is on its way: %v, it says %v", key.ID, inFlight, rs.Flying())
			}
			w.checkTimer(p, rs)
		}
	}
	if busy != w.s.mem.woken.Len() || fresh != w.s.mem.woken.Fresh() || waiting != w.s.mem.starts.Asking() ||
		kept != w.s.mem.kept.Bytes() {
		w.t.Errorf("busy %d, counted %d; of them fresh %d, counted %d; waiting for a place %d, counted %d; kept %d bytes, counted %d",
			w.s.mem.woken.Len(), busy, w.s.mem.woken.Fresh(), fresh, w.s.mem.starts.Asking(), waiting, w.s.mem.kept.Bytes(), kept)
	}
	if kept > w.s.mem.limits.KeptBytes {
		w.t.Errorf("%d bytes are kept, the limit is %d", kept, w.s.mem.limits.KeptBytes)
	}
}

// flying reports whether a commit of a run is in flight, and checks that there is at most one.
func (w *world) flying(rs *resident) bool {
	n := 0
	for _, b := range slices.Concat(w.begun, w.s.mem.commits.again) {
		for i := range w.residents(b) {
			if slices.Contains(b.residents[i], rs) {
				n++
			}
		}
	}
	if n > 1 {
		w.t.Errorf("run %q has %d commits on their way", rs.Key.ID, n)
	}
	return n > 0
}

func (w *world) residents(b *Batch) [][]*resident {
	if b == nil {
		return nil
	}
	return b.residents
}

// checkTimer checks that a run at rest has a timer for its wake.
func (w *world) checkTimer(p *Partition, rs *resident) {
	if !rs.atRest() || !w.s.mem.active {
		return
	}
	want, ok := rs.Run.NextWake(w.now)
	got, has := p.wakes.Due(wakeKey(rs.Key))
	if overdue := has && got <= w.now; !overdue && (has != ok || got != want) { // one that is overdue waits for room
		w.t.Errorf("run %q has a timer %v %d, and wakes %v %d", rs.Key.ID, has, got, ok, want)
	}
}

// serveLoads reads what is to be read.
func (w *world) serveLoads() {
	for len(w.loads) > 0 {
		l := w.loads[0]
		w.loads = w.loads[1:]
		w.serveLoad(l)
	}
}

func (w *world) serveLoad(l load) {
	st, entries, err := w.store.Run(context.Background(), l.key)
	var r *run.Run
	var known *store.RunState
	if err == nil {
		known = &st
		r, err = run.Load(st, entries, w.s.Config())
	}
	if e := w.unread[l.key]; e != nil {
		r, err = nil, e
	}
	w.s.Loaded(w.now, l.p, l.key, r, known, err)
	w.check()
}

// serveDues reads the wake index.
func (w *world) serveDues() {
	for len(w.aheads) > 0 {
		d := w.aheads[0]
		w.aheads = w.aheads[1:]
		err := FindWakesAhead(context.Background(), d.p.Owned, w.store, d.until,
			func(keys []store.RunKey) { w.s.AheadRead(w.now, d.p, keys, nil) })
		if err != nil {
			w.t.Fatal(err)
		}
		w.check()
	}
	for len(w.dues) > 0 {
		d := w.dues[0]
		w.dues = w.dues[1:]
		wakes, err := d.p.Owned.Due(context.Background(), d.after, d.until, d.limit+1)
		more, first := len(wakes) > d.limit, int64(math.MaxInt64)
		if more {
			first = wakes[d.limit].Key.UnixMs
			wakes = wakes[:d.limit]
		} else if next, _ := d.p.Owned.Due(context.Background(), store.WakeKey{UnixMs: d.until + 1},
			math.MaxInt64-1, 1); len(next) > 0 {
			first = next[0].Key.UnixMs
		}
		w.s.DueRead(w.now, d.p, wakes, more, first, err)
		w.check()
	}
}

func (w *world) serveInboxes() {
	for len(w.inboxes) > 0 {
		r := w.inboxes[0]
		w.inboxes = w.inboxes[1:]
		cmds, err := r.p.Owned.Commands(context.Background(), r.after, r.limit)
		w.s.InboxRead(w.now, r.p, cmds, err)
		w.check()
	}
}

// begin begins a commit, nil if there is nothing to commit.
func (w *world) begin() *Batch {
	b := w.s.Batch(w.now)
	if b != nil {
		w.begun = append(w.begun, b)
	}
	w.check()
	return b
}

// end completes a commit: in the store, or with the given error.
func (w *world) end(b *Batch, err error) {
	w.t.Helper()
	if err == nil {
		err = w.store.Commit(context.Background(), b.Groups)
		if err != nil {
			var refused *store.RefusedError
			if !errors.As(err, &refused) {
				w.t.Fatal(err)
			}
		}
	}
	w.begun = slices.DeleteFunc(w.begun, func(x *Batch) bool { return x == b })
	w.s.Committed(w.now, b, err)
	w.check()
}

// pump does everything except for guests and attempts, and returns the number of commits.
func (w *world) pump() (commits int) {
	w.t.Helper()
	for range 10_000 {
		w.serveLoads()
		w.serveInboxes()
		w.s.Tick(w.now)
		w.check()
		w.serveDues()
		b := w.begin()
		if b != nil {
			commits++
			w.end(b, nil)
		}
		if b == nil && len(w.loads)+len(w.dues)+len(w.inboxes) == 0 {
			if at, ok := w.s.Next(); !ok || at > w.now {
				return commits
			}
		}
	}
	w.t.Fatal("the shard does not come to rest")
	return 0
}

// later lets time pass.
func (w *world) later(d time.Duration) int {
	w.t.Helper()
	w.now += d.Milliseconds()
	return w.pump()
}

// guest delivers an event of a guest.
func (w *world) guest(l *run.Lease, ev run.Event) {
	w.s.Guest(w.now, l, ev)
	w.check()
}

func (w *world) inside(key store.RunKey, ev run.Event) {
	w.s.Inside(w.now, key, ev, nil)
	w.check()
}

// lastLease returns the newest requested guest of a run.
func (w *world) lastLease(key store.RunKey) *run.Lease {
	w.t.Helper()
	for i := len(w.asked) - 1; i >= 0; i-- {
		if l := w.asked[i].l; l.Run().Key() == key {
			return l
		}
	}
	w.t.Fatalf("no guest was asked for, of run %q", key.ID)
	return nil
}

// ready gives the newest guest of a run its place.
func (w *world) ready(key store.RunKey) *run.Lease {
	l := w.lastLease(key)
	w.guest(l, run.GuestReady{Lease: l})
	return l
}

// call has a guest append a call.
func (w *world) call(l *run.Lease, e store.Entry) {
	w.t.Helper()
	if _, err := l.Append(w.now, e); err != nil {
		w.t.Fatal(err)
	}
}

// waits has a guest wait for a handle.
func (w *world) waits(l *run.Lease, handles ...int64) {
	w.guest(l, run.GuestWaits{Lease: l, Suspension: store.Suspension{Seq: store.Seq(len(l.Entries())), Awaited: handles}})
}

func (w *world) complete(l *run.Lease) {
	w.guest(l, run.GuestEnds{Lease: l, End: run.End{Entry: &store.Entry{Kind: store.KindCompleted}}})
}

func sleepCall(handle int64, dueMs int64) store.Entry {
	return store.Entry{Kind: store.KindSleep, Name: fmt.Sprint("nap", handle), Handle: handle, DueUnixMs: dueMs, HasDue: true}
}

func stepCall(handle int64) store.Entry {
	return store.Entry{Kind: store.KindStep, Name: fmt.Sprint("step", handle), Handle: handle, Target: abi.HandlerPrefix + "charge"}
}

func waitCall(handle int64, name string) store.Entry {
	return store.Entry{Kind: store.KindSignalWait, Name: name, Handle: handle}
}

// sleeper starts a run that sleeps.
func (w *world) sleeper(key store.RunKey, d time.Duration) {
	w.t.Helper()
	w.start(key)
	w.pump()
	l := w.ready(key)
	w.call(l, sleepCall(1, w.now+d.Milliseconds()))
	w.waits(l, 1)
	w.pump()
}

// waiter starts a run that waits for a signal.
func (w *world) waiter(key store.RunKey) {
	w.t.Helper()
	w.start(key)
	w.pump()
	l := w.ready(key)
	w.call(l, waitCall(1, "go"))
	w.waits(l, 1)
	w.pump()
}

func (w *world) state(key store.RunKey) store.RunState {
	w.t.Helper()
	st, err := w.store.State(context.Background(), key)
	if err != nil {
		w.t.Fatal(err)
	}
	return st
}

// forget evicts a run from memory, as if others had been used since. A run that waits for a place has already left.
func (w *world) forget(key store.RunKey) {
	w.t.Helper()
	rs := w.s.Partition(key.Partition()).residents[key]
	if rs == nil && w.Asks(key) {
		return
	}
	if rs == nil || rs.place == nil {
		w.t.Fatalf("run %q is not at rest", key.ID)
	}
	w.s.mem.unkeep(rs)
	w.s.mem.drop(rs)
}

// reported returns the reports of a kind.
func (w *world) reported(kind ReportKind) (list []Report) {
	for _, n := range w.reports {
		if n.Kind == kind {
			list = append(list, n)
		}
	}
	return list
}

// want checks a reply.
func (w *world) want(r *reply, err error) {
	w.t.Helper()
	if r.calls != 1 || !errors.Is(r.err, err) {
		w.t.Errorf("answered %d times with error %v, want %v", r.calls, r.err, err)
	}
}

func (w *world) unanswered(r *reply) {
	w.t.Helper()
	if r.calls != 0 {
		w.t.Errorf("answered already: %+v %v", r.answer, r.err)
	}
}
