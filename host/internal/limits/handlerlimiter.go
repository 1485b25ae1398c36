package limits

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/host/internal/timers"
	"github.com/wfhost/wfhost/store"
)

// QueuePrefix precedes the handler's name in the name of its queue. No workflow has such a name. The queue named by the
// prefix alone holds the limits of all handlers of a namespace.
const QueuePrefix = "host/"

// MaxHandlers bounds the handlers of a namespace that have limits.
const MaxHandlers = store.MaxLimitsOfOne

// HandlerLimiterConfig configures a HandlerLimiter. All fields are required.
type HandlerLimiterConfig struct {
	Store  store.LimitStore
	Clock  clock.Clock
	Logger *slog.Logger
	Failed func(err error) // called when the store has failed
}

// HandlerKey names a handler for the runs of a namespace.
type HandlerKey struct {
	Namespace store.NamespaceID
	Name      string
}

// HandlerLimiter limits the attempts of handlers: how many are in progress at a time, and how many begin within a window.
// A waiting attempt is an entry in memory, without a goroutine. The keys that the limits read from the inputs of steps take
// turns, and so do the runs with the same keys.
//
// An attempt holds a slot from its beginning until its handler returns, or until its outcome if another process performs it.
// Slots are kept in memory, for the attempts of this host only: after a crash the attempts are made again and ask again.
// For rates, the start of an attempt is durable before the attempt begins, and counts for all hosts that share a store:
//
//	Enter -> waiting -> counted -> durable -> begins -> Leave
//	            ^                     |
//	            +---------------------+ another host was quicker
//
// Its methods may be called concurrently.
type HandlerLimiter struct {
	cfg    HandlerLimiterConfig
	ctx    context.Context //nolint:containedctx // it ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// mu guards the fields below and all queues. While it is held, clocks are read, timers are set, and handler.Call.Busy is
	// called; nothing that blocks is.
	mu       sync.Mutex
	spaces   map[store.NamespaceID]*attemptSpace
	queues   map[HandlerKey]*handlerQueue
	runs     map[store.RunKey]map[*attemptEntry]bool // waiting attempts by run
	due      timers.Set[*handlerQueue]
	alarm    *clock.Alarm // nil until a handler has limits
	draining bool
	closed   bool
}

// attemptSpace records whether the limits of a namespace were read.
type attemptSpace struct {
	mu   sync.Mutex // held while they are read
	read bool
}

// attemptEntry is an attempt of a handler with limits.
type attemptEntry struct {
	t        *HandlerLimiter
	call     *handler.Call
	begin    func()
	run      store.RunKey
	ctx      context.Context //nolint:containedctx // of the attempt
	queue    *handlerQueue
	lane     *attemptLane // nil = it does not wait
	counters []*attemptWindow
	resting  bool        // the last call of Busy passed false
	stop     func() bool // ends the watch on ctx
}

// NewHandlerLimiter returns a HandlerLimiter that has read no limits yet.
func NewHandlerLimiter(cfg HandlerLimiterConfig) *HandlerLimiter {
	t := &HandlerLimiter{cfg: cfg, spaces: map[store.NamespaceID]*attemptSpace{}, queues: map[HandlerKey]*handlerQueue{},
		runs: map[store.RunKey]map[*attemptEntry]bool{}}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// Enter calls begin when an attempt may begin: before it returns, or later in a goroutine of its own. If ctx ends first, the
// attempt is given up instead.
func (t *HandlerLimiter) Enter(ctx context.Context, c *handler.Call, begin func()) {
	key := HandlerKey{c.Attempt.Run.Namespace, c.Attempt.Handler}
	if err := t.Load(ctx, key.Namespace); ctx.Err() != nil {
		c.GiveUp()
		return
	} else if err != nil {
		c.End(run.StepFailure(abi.KindError, "the limits of the handler cannot be read: "+err.Error(), true), nil)
		return
	}
	e := &attemptEntry{t: t, call: c, begin: begin, run: c.Attempt.Run, ctx: ctx}
	t.mu.Lock()
	g := t.queues[key]
	switch {
	case g == nil:
		t.mu.Unlock()
		begin()
		return
	case t.draining || t.closed:
		t.mu.Unlock()
		e.notBegun()
		return
	}
	defer t.mu.Unlock()
	c.Leave = sync.OnceFunc(func() { t.leave(e) })
	e.stop = context.AfterFunc(ctx, func() { t.drop(e) })
	g.enter(e, false)
	g.look()
	if e.lane != nil && !e.lane.loading {
		e.busy(false)
	}
}

// leave returns the slot of an attempt.
func (t *HandlerLimiter) leave(e *attemptEntry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.queue.leave(e)
	e.queue.look()
}

// drop gives up a waiting attempt whose ctx has ended.
func (t *HandlerLimiter) drop(e *attemptEntry) {
	t.mu.Lock()
	l := e.lane
	if l == nil { // it has begun or is about to
		t.mu.Unlock()
		return
	}
	e.unwait()
	t.mu.Unlock()
	e.call.GiveUp()
}

// unwait removes an attempt from its lane. The caller holds mu.
func (e *attemptEntry) unwait() {
	l := e.lane
	l.remove(e)
	e.queue.waiting--
	e.t.noteRun(e, false)
	e.queue.tidy(l)
}

// busy tells the call whether the host has work for the attempt.
func (e *attemptEntry) busy(busy bool) {
	if e.call.Busy != nil && e.resting == busy {
		e.resting = !busy
		e.call.Busy(busy)
	}
}

// over reports whether ctx of the attempt has ended.
func (e *attemptEntry) over() bool { return e.ctx.Err() != nil }

func (e *attemptEntry) giveUp() { go e.call.GiveUp() }

// notBegun ends an attempt that had not begun when the host began to stop.
func (e *attemptEntry) notBegun() { e.call.End(handler.NotBegun(e.call.Attempt.AtMostOnce), nil) }

// start begins an attempt in a goroutine of its own. The caller holds mu.
func (e *attemptEntry) start() {
	e.stop()
	go func() {
		if e.over() {
			e.call.Leave()
			e.call.GiveUp()
			return
		}
		e.begin()
	}()
}

// noteRun records whether an attempt waits. The caller holds mu.
func (t *HandlerLimiter) noteRun(e *attemptEntry, waits bool) {
	of := t.runs[e.run]
	switch {
	case !waits:
		if delete(of, e); len(of) == 0 {
			delete(t.runs, e.run)
		}
		return
	case of == nil:
		of = map[*attemptEntry]bool{}
		t.runs[e.run] = of
	}
	of[e] = true
}

func (t *HandlerLimiter) now() int64 { return t.cfg.Clock.Now().UnixMilli() }

// background runs f in a goroutine that Close waits for. The caller holds mu.
func (t *HandlerLimiter) background(f func(ctx context.Context)) {
	if !t.closed {
		t.wg.Go(func() { f(t.ctx) })
	}
}

// SetDraining sets whether the host is about to stop. Then waiting attempts are ended without having begun.
func (t *HandlerLimiter) SetDraining(draining bool) {
	t.mu.Lock()
	t.draining = draining
	var list []*attemptEntry
	if draining {
		for _, of := range t.runs {
			for e := range of {
				list = append(list, e)
			}
		}
	}
	for _, e := range list {
		e.stop()
		e.unwait()
	}
	t.mu.Unlock()
	for _, e := range list {
		e.notBegun()
	}
}

// Next returns when time alone may let a waiting attempt begin, false if there is none.
func (t *HandlerLimiter) Next() (unixMs int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.due.Next()
}

// arm sets the alarm to the next due queue. The caller holds mu.
func (t *HandlerLimiter) arm() {
	at, ok := t.due.Next()
	switch {
	case ok && t.alarm == nil && !t.closed:
		t.alarm = clock.NewAlarm(t.cfg.Clock)
		t.background(t.listen)
		fallthrough
	case ok && t.alarm != nil:
		t.alarm.Set(at)
	case t.alarm != nil:
		t.alarm.Clear()
	}
}

// listen processes queues when they are due.
func (t *HandlerLimiter) listen(ctx context.Context) {
	for {
		moved := false
		select {
		case <-t.alarm.C():
		case <-t.alarm.Moved(): // after the clock was set back, marks in the future count as now
			moved = true
		case <-ctx.Done():
			return
		}
		t.mu.Lock()
		if moved {
			for _, g := range t.queues {
				g.clockSet(t.now())
			}
		}
		for g, _, ok := t.due.Pop(t.now()); ok; g, _, ok = t.due.Pop(t.now()) {
			g.look()
		}
		t.arm()
		t.mu.Unlock()
	}
}

// Close stops all timers and waits for commits. No attempt begins afterwards. Close of a nil HandlerLimiter does nothing.
func (t *HandlerLimiter) Close() {
	if t == nil {
		return
	}
	t.cancel()
	t.mu.Lock()
	t.closed = true
	for _, g := range t.queues {
		g.end()
	}
	t.mu.Unlock()
	t.wg.Wait()
	if t.alarm != nil {
		t.alarm.Close()
	}
}

// end stops a queue. The caller holds mu.
func (g *handlerQueue) end() {
	g.over = true
	g.arm()
}

// HandlerQueue describes what an attempt waits for.
type HandlerQueue struct {
	Step, Handler string
	Limit         string // the limit that blocks it
	Others        int    // how many other attempts of the handler wait
}

// Waits returns what a waiting attempt of a run waits for, false if none waits. Of several it takes the least step name.
func (t *HandlerLimiter) Waits(run store.RunKey) (w HandlerQueue, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for e := range t.runs[run] {
		if ok && e.call.Attempt.Step > w.Step {
			continue
		}
		ok = true
		w = HandlerQueue{Step: e.call.Attempt.Step, Handler: e.queue.key.Name, Others: e.queue.waiting - 1}
		if c := e.queue.inTheWay(e.lane); c != nil {
			w.Limit = c.rule.String()
		}
	}
	return w, ok
}

// inTheWay returns the counter that blocks a lane, nil if there is none.
func (g *handlerQueue) inTheWay(l *attemptLane) *attemptWindow {
	if l.blocked != nil {
		return l.blocked
	}
	now := g.t.now()
	for _, c := range g.totals {
		if c.full(now) {
			return c
		}
	}
	return l.full(now)
}

// Waiting reports whether an attempt of a run waits.
func (t *HandlerLimiter) Waiting(run store.RunKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.runs[run]) > 0
}

// Count returns how many attempts of a handler hold a slot on this host and how many wait.
func (t *HandlerLimiter) Count(key HandlerKey) (held, waiting int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.queues[key]; g != nil {
		return len(g.held), g.waiting
	}
	return 0, 0
}

// set replaces the limits of a handler at once. The caller holds mu.
func (t *HandlerLimiter) set(key HandlerKey, rules Rules) {
	old := t.queues[key]
	if delete(t.queues, key); len(rules) > 0 {
		t.queues[key] = newHandlerQueue(t, key, rules)
	}
	if old == nil {
		return
	}
	old.end()
	g := t.queues[key]
	var waiting []*attemptEntry
	for _, l := range old.lanes {
		waiting = append(waiting, l.all()...)
		l.runs, l.waiting = nil, 0
	}
	if g == nil {
		for _, e := range waiting {
			t.noteRun(e, false)
			e.lane = nil
			e.busy(true)
			e.start()
		}
		return
	}
	for e := range old.held {
		g.adopt(e)
	}
	for _, e := range waiting {
		e.busy(true)
		g.enter(e, false)
	}
	g.look()
	g.restAll()
}

// adopt moves an attempt that holds a slot to a queue with new limits.
func (g *handlerQueue) adopt(e *attemptEntry) {
	e.queue, e.counters = g, slices.Concat(g.totals, g.countersOf(keysOf(g.rules, e.call.Input)))
	for _, c := range e.counters {
		c.held++
	}
	g.held[e] = true
}
