package run

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// crashWorld is a run, the places of its handlers, and its stored state.
type crashWorld struct {
	t       *testing.T
	rnd     *rand.Rand
	w       *wide
	seq     store.Seq
	entries []store.Entry // durable
	state   store.RunState
	commits []*store.RunCommit
	after   [][]*Attempt // to be started when commits are durable: after[i] with commits[i]
	behind  []*Attempt   // with the next commit
	going   []*Attempt
	waiting map[int64]Verdict
	placed  map[int64]string
	free    map[string]int
	given   map[any]bool
	seen    map[string]bool
	log     []string
	seqs    map[int64]store.Seq
}

func (x *crashWorld) note(f string, a ...any) { x.log = append(x.log, fmt.Sprintf(f, a...)) }
func (x *crashWorld) bad(f string, a ...any) {
	x.t.Fatalf("%s\n%s", fmt.Sprintf(f, a...), strings.Join(x.log, "\n"))
}

func (x *crashWorld) give(name string) any {
	x.free[name]--
	p := &name
	x.given[p] = true
	return p
}

func (x *crashWorld) back(p any) {
	if p == nil {
		return
	}
	if !x.given[p] {
		x.bad("returned twice")
	}
	delete(x.given, p)
	x.free[*p.(*string)]++
}

func (x *crashWorld) ask(a Ask) (any, Verdict) {
	x.note("ask %d anew %v", a.Handle, a.Anew)
	if a.Anew {
		clear(x.waiting)
	}
	if v, ok := x.waiting[a.Handle]; ok {
		return nil, v
	}
	if x.free[a.Handler] > 0 {
		return x.give(a.Handler), Begins
	}
	x.waiting[a.Handle] = []Verdict{Soon, Queues, Queues}[x.rnd.IntN(3)]
	x.placed[a.Handle] = a.Handler
	return nil, x.waiting[a.Handle]
}

func (x *crashWorld) do(ev Event) *Effects {
	x.note("%T %+v", ev, ev)
	x.w.now++
	fx := x.w.r.Apply(x.w.now, ev)
	if fx.WithdrawAll {
		clear(x.waiting)
	}
	for _, h := range fx.Withdraw {
		delete(x.waiting, h)
	}
	for _, p := range fx.Return {
		x.back(p)
	}
	for _, a := range fx.Drop {
		if i := slices.Index(x.going, a); i >= 0 {
			x.going = slices.Delete(x.going, i, i+1)
		}
		x.back(a.Place)
	}
	x.behind = append(x.behind, fx.Start...)
	out := *fx
	urgent := len(fx.Start) > 0
	if !x.w.r.Lent() && (urgent || x.w.r.Wants()) {
		x.prepare()
	}
	return &out
}

func (x *crashWorld) prepare() {
	c := x.w.r.Prepare(x.w.now)
	list := x.behind
	x.behind = nil
	switch {
	case c != nil:
		x.note("prepare %v mhb %d len %d", c.State.Status, c.State.MayHaveBegun, c.State.Length)
		x.commits, x.after = append(x.commits, c), append(x.after, list)
	case len(x.commits) > 0:
		x.after[len(x.after)-1] = append(x.after[len(x.after)-1], list...)
	default:
		x.start(list)
	}
}

func (x *crashWorld) start(list []*Attempt) {
	for _, a := range list {
		if !x.w.r.Has(a) {
			continue
		}
		id := fmt.Sprintf("%d #%d", a.Handle, a.Number)
		x.note("start %s", id)
		if x.seen[id] {
			x.bad("attempt %s begins twice", id)
		}
		x.seen[id] = true
		x.going = append(x.going, a)
	}
}

func (x *crashWorld) durable() {
	c, list := x.commits[0], x.after[0]
	x.commits, x.after = x.commits[1:], x.after[1:]
	x.entries = append(x.entries[:c.Expect:c.Expect], c.Append...)
	x.state = c.State
	x.note("durable %v mhb %d", c.State.Status, c.State.MayHaveBegun)
	x.start(list)
}

func (x *crashWorld) load() {
	r, err := Load(x.state, slices.Clone(x.entries), Config{Active: true, Ask: x.ask})
	if err != nil {
		x.bad("%v", err)
	}
	x.w.r = r
	x.guest(x.do(Due{}))
}

func (x *crashWorld) guest(fx *Effects) {
	for n := 0; fx.Activate != nil && n < 5; n++ {
		l := fx.Activate
		x.do(GuestReady{Lease: l})
		if !l.lent {
			return
		}
		fx = x.compute(l)
	}
}

// compute is the guest: it waits for a signal, may cancel a step, and waits for the next signal.
func (x *crashWorld) compute(l *Lease) *Effects {
	j := l.r.rec.Journal
	var last *store.Entry
	handle := int64(0)
	for i := range l.Entries() {
		e := &l.Entries()[i]
		if e.Kind == store.KindSignalWait {
			last = e
		}
		if e.Kind.Call() && e.Handle > handle && e.Kind != store.KindWithdraw {
			handle = e.Handle
		}
	}
	if h := j.Handle(last.Handle); !h.Open() {
		var open []int64
		for h := range j.Steps {
			open = append(open, h.ID)
		}
		if len(open) > 0 && x.rnd.IntN(2) == 0 {
			id := open[x.rnd.IntN(len(open))]
			e, err := l.Append(x.w.now, store.Entry{Kind: store.KindWithdraw, Handle: id})
			if err != nil {
				x.bad("%v", err)
			}
			h := j.Handle(id)
			x.note("cancel %d: code %d", id, e.Code)
			for n := int32(h.Step.Attempt) + 1; n < 100; n++ {
				if e.Code == 0 && x.seen[fmt.Sprintf("%d #%d", id, n)] {
					x.bad("step %d counts as not begun, and attempt %d has begun", id, n)
				}
			}
		}
		if _, err := l.Append(x.w.now, store.Entry{Kind: store.KindSignalWait, Name: "go", Handle: handle + 1}); err != nil {
			x.bad("%v", err)
		}
		last = &store.Entry{Handle: handle + 1}
		x.seqs[handle+1] = store.Seq(len(l.Entries()))
	}
	return x.do(GuestWaits{Lease: l, Suspension: store.Suspension{Seq: x.seqs[last.Handle], Awaited: []int64{last.Handle}}})
}

// TestRandomAttempts has steps wait for places, begin, fail and be cancelled in random order, with delayed commits,
// evictions and crashes. No attempt number begins twice, a step that has begun never counts as not begun when it is
// cancelled, and each place is returned once.
func TestRandomAttempts(t *testing.T) {
	for seed := range uint64(2000) {
		crashes(t, seed)
	}
}

func crashes(t *testing.T, seed uint64) {
	x := &crashWorld{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), waiting: map[int64]Verdict{}, placed: map[int64]string{},
		free: map[string]int{"0": 1, "1": 100, "2": 0}, given: map[any]bool{}, seen: map[string]bool{}}
	x.note("seed %d", seed)
	n := []int{1, 2, 4, 10}[x.rnd.IntN(4)]
	key := store.RunKey{Namespace: 1, ID: "r"}
	x.w = &wide{t: t, now: 1000, r: New(key, Config{Active: true, Ask: x.ask})}
	l := x.do(Start{New: NewRun{Key: key, Workflow: "w", Version: 1, Seed: make([]byte, 32)}}).Activate
	x.do(GuestReady{Lease: l})
	calls := []store.Entry{{Kind: store.KindSignalWait, Name: "go"}}
	for i := range n {
		e := aStep(i)
		e.Target = fmt.Sprint(abi.HandlerPrefix, i%3)
		e.Options = []byte([]string{`{}`, `{"delay":"0s"}`, `{"delay":"50ms"}`, `{"delay":"50ms","at_most_once":true}`}[x.rnd.IntN(4)])
		calls = append(calls, e)
	}
	for i, e := range calls {
		e.Handle = int64(i + 1)
		if _, err := l.Append(x.w.now, e); err != nil {
			t.Fatal(err)
		}
	}
	x.seq = store.Seq(len(l.Entries()))
	x.seqs = map[int64]store.Seq{1: x.seq}
	x.do(GuestWaits{Lease: l, Suspension: store.Suspension{Seq: x.seq, Awaited: []int64{1}}})
	paused := false
	for range 60 {
		if x.w.r.rec.Ended() {
			return
		}
		switch k := x.rnd.IntN(19); {
		case k < 4:
			if len(x.commits) > 0 {
				x.durable()
			}
		case k < 7:
			if len(x.going) > 0 {
				i := x.rnd.IntN(len(x.going))
				a := x.going[i]
				x.going = slices.Delete(x.going, i, i+1)
				x.back(a.Place)
				x.do(AttemptEnds{Attempt: a, Outcome: []StepOutcome{{Data: []byte("1")}, StepFailure("x", "fails", true)}[x.rnd.IntN(2)]})
			}
		case k < 8:
			x.w.now += []int64{1, 40, 10_000}[x.rnd.IntN(3)]
			x.guest(x.do(Due{}))
		case k < 9:
			x.free[fmt.Sprint(x.rnd.IntN(3))]++
		case k < 11:
			for _, h := range slices.Sorted(maps.Keys(x.waiting)) {
				v := x.waiting[h]
				if v == Soon && x.rnd.IntN(2) == 0 {
					x.waiting[h] = Queues
					x.do(Queued{Handle: h})
				} else {
					delete(x.waiting, h)
					x.do(Admitted{Handle: h, Handler: x.placed[h], Place: x.give(x.placed[h])})
				}
				break
			}
		case k < 13: // evict
			if x.w.r.AtRest() && len(x.commits) == 0 && len(x.behind) == 0 {
				x.note("evict")
				x.load()
			}
		case k < 14:
			if len(x.entries) > 0 && x.state.Run.ID != "" {
				x.note("crash")
				x.commits, x.after, x.behind, x.going = nil, nil, nil, nil
				clear(x.waiting)
				clear(x.given)
				x.free = map[string]int{"0": 1, "1": 100, "2": 0}
				x.load()
				paused = x.w.r.rec.Journal.Paused()
			}
		case k >= 16:
			if !paused {
				x.guest(x.do(Signal{Name: "go"}))
			}
		case k < 15:
			paused = !paused
			if paused {
				x.do(Pause{})
			} else {
				x.guest(x.do(Unpause{}))
			}
		}
	}
}
