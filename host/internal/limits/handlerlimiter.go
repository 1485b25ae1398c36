package limits

import (
	"context"
	"log/slog"
	"slices"
	"sync"

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
// Slots are kept in memory, for the attempts of this host only: after a crash the attempts are made again and ask again. Each
// host of a cluster has a share of them. For rates, the start of an attempt is durable before the attempt begins, and counts
// for all hosts that share a store:
//
//	Enter -> waiting -> counted -> durable -> Admit -> Return
//	            ^                     |
//	            +---------------------+ another host was quicker
//
// Its methods may be called concurrently.
type HandlerLimiter struct {
	cfg    HandlerLimiterConfig
	ctx    context.Context //nolint:containedctx // it ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// mu guards the fields below and all queues. While it is held, clocks are read and timers are set; nothing that blocks is
	// called.
	mu         sync.Mutex
	namespaces map[store.NamespaceID]*namespaceLimits
	queues     map[HandlerKey]*handlerQueue
	due        timers.Set[*handlerQueue]
	alarm      *clock.Alarm // nil until a handler has limits
	share      Share        // of the attempts in progress that a limit allows
	draining   bool
	closed     bool
}

// namespaceLimits records whether the limits of a namespace were read.
type namespaceLimits struct {
	mu   sync.Mutex // held while they are read
	read bool       // guarded by mu of the HandlerLimiter
}

// attemptEntry is an attempt of a handler with limits.
type attemptEntry struct {
	t        *HandlerLimiter
	e        handler.Entrant
	run      store.RunKey
	step     string
	keys     map[string]string // what the rules found in its input, by path
	input    []byte            // of an attempt that has begun; nil before
	queue    *handlerQueue
	lane     *attemptLane // nil = it does not wait
	counters []*attemptWindow
	entering bool // Enter has not returned
	begun    bool // with entering: it has its slot
	told     bool // e knows that it waits
	gone     bool // Return was called
}

// NewHandlerLimiter returns a HandlerLimiter that has read no limits yet.
func NewHandlerLimiter(cfg HandlerLimiterConfig) *HandlerLimiter {
	t := &HandlerLimiter{cfg: cfg, namespaces: map[store.NamespaceID]*namespaceLimits{}, queues: map[HandlerKey]*handlerQueue{}}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// Limited reports whether a handler has limits in a namespace. known is false if the limits of the namespace have not been read.
func (t *HandlerLimiter) Limited(ns store.NamespaceID, name string) (limited, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.namespaces[ns]
	return t.queues[HandlerKey{ns, name}] != nil, s != nil && s.read
}

// Enter asks for a slot: see handler.Limiter.
func (t *HandlerLimiter) Enter(a run.Ask, e handler.Entrant) (handler.Slot, run.Verdict) {
	x := &attemptEntry{t: t, e: e, run: a.Run, step: a.Step, entering: true}
	key := HandlerKey{a.Run.Namespace, a.Handler}
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.queues[key]
	for g != nil && (x.keys == nil || !x.knows(g.rules)) {
		rules := g.rules
		t.mu.Unlock() // its input may be large
		x.keys = rules.Of(a.Input, 0).Keys
		t.mu.Lock()
		g = t.queues[key]
	}
	if g == nil {
		return nil, run.Begins
	}
	g.enter(x, false)
	g.process()
	switch x.entering = false; {
	case x.begun:
		return x, run.Begins
	case x.lane != nil && !x.lane.loading:
		x.told = true
		return x, run.Queues
	}
	return x, run.Soon
}

// Return returns the slot of an attempt, or takes the attempt out of its queue.
func (e *attemptEntry) Return() {
	e.t.mu.Lock()
	defer e.t.mu.Unlock()
	if e.gone = true; e.lane != nil {
		e.unwait()
		return
	}
	e.queue.giveBack(e)
	e.queue.process()
}

// Begins keeps the input, for limits that are set while the attempt is in progress.
func (e *attemptEntry) Begins(input []byte) {
	e.t.mu.Lock()
	defer e.t.mu.Unlock()
	if e.input = input; input == nil {
		e.input = []byte{}
	}
	if g := e.queue; g.held[e] && !e.knows(g.rules) { // the limits have changed since it got its slot
		for _, c := range e.counters {
			c.held--
			g.forget(c)
		}
		g.adopt(e)
	}
}

// Counts reports whether the current limits count the attempt. They do not if they were removed and set again meanwhile, or if
// they need a key that was not read from the attempt's input.
func (e *attemptEntry) Counts() bool {
	e.t.mu.Lock()
	defer e.t.mu.Unlock()
	return e.t.queues[e.queue.key] == e.queue && e.queue.held[e] && e.knows(e.queue.rules)
}

// unwait removes an attempt from its lane. The caller holds mu.
func (e *attemptEntry) unwait() {
	l := e.lane
	l.remove(e)
	e.queue.waiting--
	e.queue.tidy(l)
}

// rests calls Queued once for an attempt that must wait for others.
func (e *attemptEntry) rests() {
	if !e.entering && !e.told {
		e.told = true
		go e.e.Queued()
	}
}

// start gives an attempt its slot. The caller holds mu.
func (e *attemptEntry) start() {
	if e.entering {
		e.begun = true
		return
	}
	e.e.Wakes()
	go e.e.Admit(e)
}

func (t *HandlerLimiter) now() int64 { return t.cfg.Clock.Now().UnixMilli() }

// background runs f in a goroutine that Close waits for. The caller holds mu.
func (t *HandlerLimiter) background(f func(ctx context.Context)) {
	if !t.closed {
		t.wg.Go(func() { f(t.ctx) })
	}
}

// SetDraining sets whether the host is about to stop. While it is, no attempt gets a slot.
func (t *HandlerLimiter) SetDraining(draining bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.draining = draining
	for _, g := range t.queues {
		g.process()
	}
}

// SetShare sets which part of the attempts in progress that a limit allows this host may make. Those in progress go on.
func (t *HandlerLimiter) SetShare(s Share) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.share = s
	for _, g := range t.queues {
		for _, c := range g.totals {
			c.most = int(s.Of(int64(c.rule.Max)))
		}
		for _, c := range g.keyed {
			if c.most = int(s.Of(int64(c.rule.Max))); c.rule.WindowMs == 0 {
				g.unblock(c)
			}
		}
		g.process()
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
		case <-t.alarm.Moved(): // after the clock was set back, grains in the future count as now
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
			g.process()
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

// Waits describes an attempt that waits: see handler.Slot.
func (e *attemptEntry) Waits() handler.SlotWaits {
	e.t.mu.Lock()
	defer e.t.mu.Unlock()
	w := handler.SlotWaits{Step: e.step, Others: max(e.queue.waiting-1, 0)}
	if e.lane != nil {
		if c := e.queue.inTheWay(e.lane); c != nil {
			w.Limit = c.rule.String()
		}
	}
	return w
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
		l.runs.Init()
		l.waiting = 0
	}
	for e := range old.held {
		if g != nil {
			g.adopt(e)
		}
	}
	var free []*attemptEntry // attempts that need no slot now, or whose inputs must be read again
	for _, e := range waiting {
		if e.lane = nil; g != nil && e.knows(rules) {
			g.enter(e, false)
			continue
		}
		e.e.Wakes()
		free = append(free, e)
	}
	go func() { // one goroutine for all of them: there may be a million
		for _, e := range free {
			e.e.Admit(nil)
		}
	}()
	if g != nil {
		g.process()
		g.restAll()
	}
}

// knows reports whether an attempt has the keys of rules.
func (e *attemptEntry) knows(rules Rules) bool {
	for i := range rules {
		if _, ok := e.keys[rules[i].Per]; rules[i].Per != "" && !ok {
			return false
		}
	}
	return true
}

// adopt moves an attempt that holds a slot to a queue with new limits. If it lacks a key of the new rules and has not begun, only
// the rules without a key count it.
func (g *handlerQueue) adopt(e *attemptEntry) {
	e.queue, e.counters = g, slices.Clone(g.totals)
	if e.input != nil && !e.knows(g.rules) {
		e.keys = g.rules.Of(e.input, 0).Keys
	}
	if e.knows(g.rules) {
		e.counters = append(e.counters, g.countersOf(keysOf(g.rules, e.keys))...)
	}
	for _, c := range e.counters {
		c.held++
	}
	g.held[e] = true
}
