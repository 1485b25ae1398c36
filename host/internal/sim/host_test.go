package sim

import (
	"context"
	"errors"
	"fmt"

	"slices"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/shard"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// host is a process that may crash: its writers and registered handlers.
type host struct {
	w        *world
	name     string
	up       bool
	active   bool
	member   *member // nil if the hosts are no cluster
	weight   int
	skew     int64 // its clock minus that of the world
	stopped  int64 // until that tick it does nothing; 0: it is not stopped
	failed   bool  // its store has failed, and accepts nothing until the host is restarted
	want     map[store.PartitionID]bool
	writers  []*writer
	handlers *handler.Registry // gives attempts their places; the test performs them
}

// writer imitates runtime.writer: it drives a shard, and is its port.
type writer struct {
	w        *world
	h        *host
	shard    *shard.Shard
	mail     []func(now int64)
	alarm    int64
	hasAlarm bool
	actors   []*actor
	works    map[*run.Attempt]*work
	commits  int // batches that are on their way
	calls    int // of the port since the newest look
	idle     int // looks in a row that did nothing
	loads    map[store.RunKey]int
}

func (h *host) start() {
	w := h.w
	if !w.disk.opens() {
		w.note("%s cannot open its store", h.name)
		w.later(nil, w.between(1000, 60_000), h.name+" is started again", h.start)
		return
	}
	h.up, h.failed, h.active = true, false, false
	h.handlers = handler.NewRegistry(handler.Config{Shared: func() bool { return false }, Runs: h, MaxCallsPerHandler: w.p.places,
		MaxCalls: 2 * w.p.places, Lingering: -1})
	for i := range handlerNames {
		if w.calm || w.odds(2, 3) {
			h.handlers.Handle(handlerNames[i], performed)
		}
	}
	limits := shard.Limits{Woken: w.p.busy, Starts: w.p.starts, StartBytes: 1 << 20, KeptBytes: w.p.kept, Timers: w.p.timers,
		Portion: w.p.portion, Commits: w.p.commits, StartLinger: 50 * time.Millisecond}
	for range w.p.writers {
		x := &writer{w: w, h: h, works: map[*run.Attempt]*work{}, loads: map[store.RunKey]int{}}
		x.shard = shard.New(x, limits)
		h.writers = append(h.writers, x)
	}
	w.note("%s starts", h.name)
	if w.p.cluster {
		h.join()
		h.later("run", func() { h.setActive(true) })
		return
	}
	for id := range store.PartitionID(store.Partitions) {
		if h.want[id] {
			h.acquire(id)
		}
	}
	h.later("run", func() { h.setActive(true) })
	h.announce()
}

// performed is a placeholder for a handler's function: see writer.Start.
func performed(context.Context, handler.Attempt, []byte) ([]byte, error) { return nil, nil }

// Admitted delivers a place to a waiting attempt, as the runtime does.
func (h *host) Admitted(key store.RunKey, ev run.Admitted) {
	x := h.writerOf(key.Partition())
	x.post(func(now int64) { x.shard.Admitted(now, key, ev) })
}

// Queued is never called: no handler has limits here.
func (h *host) Queued(key store.RunKey, _ int64) {
	h.w.broken("a handler without limits", "%s", key.ID)
}

// announce makes the other hosts read their inboxes: this host may have died between a commit and its kicks. Hosts of a cluster
// poll for that.
func (h *host) announce() {
	for _, o := range h.w.hosts {
		for _, x := range o.writers {
			if o != h {
				x.post(func(int64) {
					for _, p := range x.shard.Partitions() {
						x.shard.Kicked(p.ID)
					}
				})
			}
		}
	}
}

// later adds an operation that ends with the host.
func (h *host) later(name string, do func()) *item { return h.w.later(h, 0, h.name+" "+name, do) }

// acquire makes the host the owner of a partition at once, and informs its shard.
func (h *host) acquire(id store.PartitionID) {
	ttl := time.Duration(0)
	if m := h.member; m != nil {
		if m.view == nil { // given up
			return
		}
		ttl = lease
	}
	owned, err := h.db().Acquire(ctx, id, h.name, ttl)
	if errors.Is(err, store.ErrOwned) {
		return
	}
	if err != nil {
		panic(err)
	}
	h.w.ticks.acquired(h, id, owned)
	h.w.owner[id] = h
	for _, o := range h.w.hosts {
		o.want[id] = o == h
	}
	h.want[id] = true
	x := h.writerOf(id)
	x.post(func(int64) {
		if p := x.shard.Partition(id); p != nil {
			x.shard.Lose(p, store.ErrFenced)
		}
		x.shard.Acquired(id, owned)
	})
}

// take makes the host acquire a partition, which it or another host owns.
func (h *host) take(id store.PartitionID) {
	if !h.w.odds(1, 4) && h.w.homes != nil {
		for id = range store.PartitionID(store.Partitions) {
			if h.w.homes[id] && h.w.odds(1, 3) {
				break
			}
		}
	}
	h.later(fmt.Sprintf("takes partition %d", id), func() { h.acquire(id) })
}

func (h *host) writerOf(id store.PartitionID) *writer { return h.writers[int(id)%len(h.writers)] }

func (h *host) setActive(active bool) {
	h.active = active
	for _, x := range h.writers {
		x.post(func(now int64) { x.shard.SetActive(now, active) })
	}
}

// drainOrResume drains the host, as a signal to the process would, or resumes it.
func (h *host) drainOrResume() {
	h.w.note("%s drains or resumes: active was %v", h.name, h.active)
	if h.setActive(!h.active); !h.active {
		for _, x := range h.writers {
			for _, a := range x.actors {
				a.evict = true
			}
		}
	}
}

// crash kills the process at this point. What is in flight is written or lost.
func (h *host) crash() {
	w := h.w
	w.note("%s crashes", h.name)
	for _, it := range w.items {
		if it.h == h && it.crash != nil && w.odds(1, 2) {
			it.crash()
		}
	}
	h.kill()
	w.later(nil, w.between(0, 1)*w.between(0, 60_000), h.name+" comes back", h.start)
}

// db is the store as the host has it open.
func (h *host) db() *memstore.Store {
	if h.member != nil {
		return h.member.db
	}
	return h.w.db
}

// kill drops all of the host's memory.
func (h *host) kill() {
	h.up, h.active, h.stopped, h.member = false, false, 0, nil
	h.w.ticks.events = slices.DeleteFunc(h.w.ticks.events, func(e *item) bool { return e.h == h })
	h.w.ticks.calmAt = h.w.ticks.now
	h.w.items = slices.DeleteFunc(h.w.items, func(it *item) bool { return it.h == h })
	for _, x := range h.writers {
		for _, a := range x.actors {
			a.kill()
		}
	}
	h.writers = nil
	h.w.users.hostDied(h)
}

// fail does what the runtime does after the store has failed: nothing is accepted until a supervisor restarts the
// process.
func (h *host) fail(err error) {
	if h.failed {
		return
	}
	h.failed = true
	for _, x := range h.writers {
		x.post(func(int64) {
			for _, p := range x.shard.Partitions() {
				x.shard.Lose(p, err)
			}
		})
	}
	h.later("is ended by its supervisor", h.crash)
}

// post has the shard's goroutine call f.
func (x *writer) post(f func(now int64)) { x.mail = append(x.mail, f) }

func (x *writer) runnable() bool {
	return !x.h.stands() && (len(x.mail) > 0 || x.hasAlarm && x.alarm <= x.h.now())
}

// settled reports whether the writer has nothing to do at this instant.
func (x *writer) settled() bool { return !x.runnable() }

// loop is one iteration of the writer: it handles some of its mail, and its timers.
func (x *writer) loop() {
	w := x.w
	n := len(x.mail)
	if n > 1 && w.odds(1, 2) {
		n = 1 + w.rng.IntN(n)
	}
	w.note("%s looks, with %d of %d events", x.name(), n, len(x.mail))
	mail := x.mail[:n:n]
	x.mail = x.mail[n:]
	x.calls = 0
	for _, f := range mail {
		f(x.h.now())
	}
	x.shard.Tick(x.h.now())
	for b := x.shard.Batch(x.h.now()); b != nil; b = x.shard.Batch(x.h.now()) {
		x.commit(b)
	}
	x.alarm, x.hasAlarm = x.shard.Next()
	x.idle++
	if n > 0 || x.calls > 0 {
		x.idle = 0
	}
	if x.idle > 3 && x.runnable() {
		w.broken("nothing spins", "%s is woken again and again at %d, and does nothing", x.name(), x.alarm)
	}
	x.actors = slices.DeleteFunc(x.actors, func(a *actor) bool { return a.dead })
}

func (x *writer) name() string { return fmt.Sprintf("%s.%d", x.h.name, slices.Index(x.h.writers, x)) }

// async performs an operation of the port: it reads at one instant, and reports at another.
func (x *writer) async(name string, op func() func(now int64)) {
	x.calls++
	x.w.later(x.h, x.slow(), x.name()+" "+name, func() {
		tell := op()
		if x.w.odds(1, 2) {
			x.post(tell)
			return
		}
		x.w.later(x.h, x.slow(), x.name()+" is told of "+name, func() { x.post(tell) })
	})
}

// slow is how long an operation takes.
func (x *writer) slow() int64 {
	if x.w.odds(1, 30) {
		return x.w.between(1, 3000)
	}
	return 0
}

// commit makes a batch durable, as runtime.writer.commits does.
func (x *writer) commit(b *shard.Batch) {
	w := x.w
	x.calls++
	x.commits++
	var it *item
	told := false
	db := x.h.db()
	write := func() error { return w.disk.commit(w, db, b.Groups) }
	it = w.later(x.h, x.slow(), fmt.Sprintf("%s commits %d runs", x.name(), b.Len()), func() {
		err := x.write(b, write)
		told = true
		tell := func() {
			w.note("%s: commit: %v", x.name(), err)
			if err != nil && errors.Is(err, store.ErrFailed) {
				x.h.fail(err)
			}
			x.post(func(now int64) {
				x.commits--
				x.shard.Committed(now, b, err)
			})
		}
		if w.odds(1, 2) {
			tell()
			return
		}
		w.later(x.h, x.slow(), x.name()+" is told of its commit", tell)
	})
	it.crash = func() {
		if !told {
			_ = write() // the process is dead, so the outcome is not reported
		}
	}
}

func (x *writer) write(b *shard.Batch, write func() error) error {
	w := x.w
	if !w.flaky() {
		return write()
	}
	switch w.rng.IntN(8) {
	case 0, 1, 2:
		g := w.rng.IntN(len(b.Groups))
		return &store.RefusedError{Group: g, Run: w.rng.IntN(len(b.Groups[g].Runs)), Err: errIO}
	case 3, 4, 5:
		if w.odds(1, 2) {
			if err := write(); err != nil {
				return err
			}
		}
		return store.ErrUnknown
	case 6:
		if w.odds(1, 2) {
			_ = write() // the fsync has failed
		}
		return fmt.Errorf("%w: simulated", store.ErrFailed)
	default:
		return write()
	}
}

// Load reads a run.
func (x *writer) Load(p *shard.Partition, key store.RunKey) {
	x.loads[key]++
	x.async("load of "+key.ID, func() func(int64) {
		var r *run.Run
		state, entries, err := x.w.db.Run(ctx, key)
		if err == nil && x.w.flaky() {
			err = errIO
		}
		cfg := x.shard.Config()
		if err == nil {
			r, err = run.Load(state, entries, cfg)
			if err != nil {
				x.w.broken("a journal can be read", "%s: %v", key.ID, err)
			}
		}
		return func(now int64) {
			x.loads[key]--
			x.shard.Loaded(now, p, key, r, nil, err)
		}
	})
}

// Due reads wakes.
func (x *writer) Due(p *shard.Partition, after store.WakeKey, until int64, limit int) {
	x.async(fmt.Sprintf("wakes of %d", p.ID), func() func(int64) {
		wakes, more, first, err := shard.FindWakes(ctx, p.Owned, after, until, limit)
		if x.w.flaky() {
			err = errIO
		}
		return func(now int64) { x.shard.DueRead(now, p, wakes, more, first, err) }
	})
}

// Ahead finds runs that began to wait while the clock was ahead of its present time.
func (x *writer) Ahead(p *shard.Partition, unixMs int64, _ bool) {
	x.async(fmt.Sprintf("waits of %d that are ahead", p.ID), func() func(int64) {
		var found []store.RunKey
		err := shard.FindWakesAhead(ctx, p.Owned, x.w.db, unixMs, func(keys []store.RunKey) { found = append(found, keys...) })
		return func(now int64) { x.shard.AheadRead(now, p, found, err) }
	})
}

// Inbox reads commands.
func (x *writer) Inbox(p *shard.Partition, after store.CommandSeq, limit int) {
	x.async(fmt.Sprintf("inbox of %d", p.ID), func() func(int64) {
		cmds, err := p.Owned.Commands(ctx, after, limit)
		if x.w.flaky() {
			err = errIO
		}
		return func(now int64) { x.shard.InboxRead(now, p, cmds, err) }
	})
}

// Carry carries out a command, as the runtime does.
func (x *writer) Carry(p *shard.Partition, cmd store.Command, m run.Message) {
	x.async(fmt.Sprintf("carry of command %d for %s", cmd.Kind, cmd.To.ID), func() func(int64) {
		start, err := x.carry(p.Owned, cmd, m)
		return func(now int64) { x.shard.Carried(now, p, cmd.To, start, nil, err) }
	})
}

func (x *writer) carry(owned store.Partition, cmd store.Command, m run.Message) (*run.NewRun, error) {
	w := x.w
	if w.flaky() {
		return nil, errIO
	}
	if cmd.Kind != store.CommandChildStart {
		return nil, x.claim(owned, cmd, m)
	}
	v, err := w.db.Modules().Version(ctx, 0, m.Workflow, m.Version)
	if errors.Is(err, store.ErrNotFound) {
		answer := run.ChildFailed(&cmd, &m, err)
		return nil, x.answerAndDiscard(owned, cmd, &answer)
	}
	if err != nil {
		return nil, err
	}
	n := &run.NewRun{Key: cmd.To, Workflow: m.Workflow, Version: v.Number, Module: v.Module, Input: m.Payload,
		InputDigest: run.InputDigest(m.Payload), Attributes: m.Attributes, TimeoutMs: m.TimeoutMs, Conflict: run.ConflictFail,
		Parent: &journal.Parent{Namespace: uint32(cmd.From.Namespace), RunID: cmd.From.ID, Incarnation: m.Sender[:],
			Iteration: m.Iteration, Handle: m.Handle, Depth: m.Depth}}
	w.fill(n)
	return n, nil
}

// fill sets what is unique to a new run.
func (w *world) fill(n *run.NewRun) {
	n.Seed = make([]byte, 32)
	w.random(n.Seed)
	w.random(n.Incarnation[:])
}

func (w *world) random(b []byte) {
	for i := range b {
		b[i] = byte(w.rng.Uint32())
	}
}

func (x *writer) claim(owned store.Partition, cmd store.Command, m run.Message) error {
	c := store.HookClaim{Namespace: cmd.To.Namespace, Token: m.Token, Ack: cmd.Seq,
		Release: cmd.Kind == store.CommandHookRelease,
		Holder:  store.HookHolder{Run: cmd.From, Incarnation: m.Sender, Iteration: m.Iteration, Handle: m.Handle}}
	if !c.Release {
		c.Reply = func(h store.HookHolder) (*store.Command, error) {
			var refusal error
			if h != c.Holder {
				refusal = abi.Errorf(abi.Conflict, "token %q is held by run %q", m.Token, h.Run.ID)
			}
			answer := run.Reply(&cmd, &m, refusal)
			return &answer, nil
		}
	}
	holder, err := owned.Claim(ctx, c)
	x.w.note("claim by %s, release %v: %s holds it, %v", cmd.From.ID, c.Release, holder.Run.ID, err)
	if err == nil && !c.Release {
		x.Kick(cmd.From.Partition())
	}
	return err
}

func (x *writer) answerAndDiscard(owned store.Partition, cmd store.Command, answer *store.Command) error {
	var answers []store.Command
	if answer != nil {
		answers = append(answers, *answer)
	}
	err := owned.Discard(ctx, []store.CommandSeq{cmd.Seq}, answers)
	if err == nil && answer != nil {
		x.Kick(answer.To.Partition())
	}
	return err
}

// Refuse answers a command that no run takes.
func (x *writer) Refuse(p *shard.Partition, cmd store.Command, answer *store.Command) {
	x.async(fmt.Sprintf("refusal of command %d for %s", cmd.Kind, cmd.To.ID), func() func(int64) {
		err := errIO
		if !x.w.flaky() {
			err = x.answerAndDiscard(p.Owned, cmd, answer)
		}
		return func(now int64) { x.shard.Carried(now, p, cmd.To, nil, nil, err) }
	})
}

// Ring is not called: there are no schedules and queues here.
func (x *writer) Ring(shard.TimerKey) {}

// Acquire acquires a partition again.
func (x *writer) Acquire(p *shard.Partition) {
	x.calls++
	if x.h.failed {
		return
	}
	x.h.later(fmt.Sprintf("acquires partition %d again", p.ID), func() {
		if !x.h.failed {
			x.h.acquire(p.ID)
		}
	})
}

// After calls f when time has passed. After stop it may still call f, at random, as the interface allows.
func (x *writer) After(d time.Duration, f func(now int64)) (stop func()) {
	it := x.w.later(x.h, d.Milliseconds(), x.name()+" a while is over", func() { x.post(f) })
	return func() { x.w.maybeDrop(it) }
}

// Durable reports a commit.
func (x *writer) Durable(c *store.RunCommit) { x.w.seen.reported(x.w, c) }

// Forgot reports that a run is no longer in memory.
func (x *writer) Forgot(store.RunKey) {}

// Kick makes the partition's owner read its inbox.
func (x *writer) Kick(id store.PartitionID) {
	if m := x.h.member; m != nil {
		if to := x.h.writerOf(id); to.shard.Partition(id) != nil {
			to.post(func(int64) { to.shard.Kicked(id) })
		} else {
			m.notify(id)
		}
		return
	}
	for _, h := range x.w.hosts {
		if h.up {
			to := h.writerOf(id)
			to.post(func(int64) { to.shard.Kicked(id) })
		}
	}
}

// Report looks at what should not happen.
func (x *writer) Report(n shard.Report) {
	switch n.Kind {
	case shard.ReportStuck:
		x.w.note("%s is stuck: %s", n.Run.ID, n.State.Reason)
		if !x.w.forcedAs(x.shard.Run(n.Run), n.State.Length) {
			x.w.seen.stuck(x.w, n)
		}
	case shard.ReportUnrecorded:
		if errors.Is(n.Cause, journal.ErrEnded) { // by its deadline
			return
		}
		x.w.broken("outcomes are recorded", "%s: %v", n.Run.ID, n.Cause)
	case shard.ReportFault, shard.ReportLost, shard.ReportRefused, shard.ReportCommand:
		x.w.note("%s note %d, partition %d %s: %v", x.name(), n.Kind, n.Partition, n.Run.ID, n.Cause)
	}
}
