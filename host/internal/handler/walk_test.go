package handler_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/limits"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// walk is a random walk of runs that ask for places, handlers that are registered, changed and limited, and a host
// that drains and resumes, with the real limiter.
type walk struct {
	*handler.Registry
	t       *testing.T
	rnd     *rand.Rand
	limiter *limits.HandlerLimiter
	log     []string

	mu   sync.Mutex // guards the fields below
	mail []walkMail
	busy int

	steps    map[store.RunKey]map[int64]*walkStep
	kind     map[string]int  // by handler: 0 = not registered, 1 = a function, 2 = for workers
	most     map[string]int  // concurrent attempts of a handler; 0 = no limit
	rated    map[string]bool // it has a rate
	allowed  map[string]int  // how many attempts may be in progress: lowering a limit does not end attempts
	begun    int             // attempts that got a place
	draining bool
}

type walkMail struct {
	run store.RunKey
	ev  any
}

// walkStep is a step that has asked for a place, or has one.
type walkStep struct {
	handler string
	asks    bool
	verdict run.Verdict
	place   *handler.Place
	evicted bool // its run was evicted while it waited
	counted bool // by the limits: it began while there were some
}

func (x *walk) post(key store.RunKey, ev any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mail = append(x.mail, walkMail{key, ev})
}

func (x *walk) Admitted(key store.RunKey, ev run.Admitted) { x.post(key, ev) }
func (x *walk) Queued(key store.RunKey, handle int64)      { x.post(key, run.Queued{Handle: handle}) }
func (x *walk) Begin()                                     { x.add(1) }
func (x *walk) Done()                                      { x.add(-1) }
func (x *walk) note(format string, args ...any)            { x.log = append(x.log, fmt.Sprintf(format, args...)) }
func (x *walk) bad(format string, args ...any) {
	x.t.Fatalf("%s: %v", fmt.Sprintf(format, args...), x.log)
}
func (x *walk) of(key store.RunKey, handle int64) *walkStep { return x.steps[key][handle] }

func (x *walk) add(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.busy += n
}

// TestRandomWalk checks every few moves that no attempt waits whose handler has a free place, that the registry knows
// all waiting attempts, and in the end that nothing is left.
func TestRandomWalk(t *testing.T) {
	begun := 0
	for seed := range uint64(1000) {
		synctest.Test(t, func(t *testing.T) {
			x := &walk{t: t, rnd: rand.New(rand.NewPCG(seed, 7)), log: []string{fmt.Sprint("seed ", seed)},
				steps: map[store.RunKey]map[int64]*walkStep{}, kind: map[string]int{}, most: map[string]int{}, rated: map[string]bool{},
				allowed: map[string]int{"a": math.MaxInt, "b": math.MaxInt}}
			x.limiter = limits.NewHandlerLimiter(limits.HandlerLimiterConfig{Store: memstore.New().Open(), Clock: clock.System(),
				Logger: slog.New(slog.DiscardHandler), Failed: func(error) {}})
			defer x.limiter.Close()
			x.Registry = handler.NewRegistry(handler.Config{Limiter: x.limiter, Runs: x, Activity: x, MaxCallsPerHandler: 3, MaxCalls: 4, Offered: 2,
				Lingering: []int{-1, 2}[x.rnd.IntN(2)], Background: func(f func(context.Context)) { go f(t.Context()) }})
			if seed%2 == 1 {
				x.PackFrom(2, 1)
			}
			for i := range 60 {
				if x.move(); i%6 == 5 {
					x.settle()
				}
			}
			x.end()
			begun += x.begun
		})
	}
	if begun < 5000 {
		t.Errorf("only %d attempts have begun", begun)
	}
}

// move makes a random move.
func (x *walk) move() {
	key, handle, name := store.RunKey{ID: fmt.Sprint("r", x.rnd.IntN(6))}, int64(1+x.rnd.IntN(2)), []string{"a", "b"}[x.rnd.IntN(2)]
	s := x.of(key, handle)
	switch n := x.rnd.IntN(20); {
	case n < 7 && s == nil:
		if x.steps[key] == nil {
			x.steps[key] = map[int64]*walkStep{}
		}
		s = &walkStep{handler: name}
		x.steps[key][handle] = s
		x.note("ask %s/%d %s", key.ID, handle, name)
		x.ask(key, handle, s)
	case n < 7 && s.asks:
		x.note("load %s/%d", key.ID, handle)
		s.evicted = true
		x.ask(key, handle, s)
	case n < 10 && s != nil && s.place != nil:
		x.note("end %s/%d", key.ID, handle)
		for _, f := range []func(){s.place.Taken, s.place.Over} {
			if x.rnd.IntN(2) == 0 {
				f()
			}
		}
		s.place.Return()
		delete(x.steps[key], handle)
	case n < 12 && s != nil && s.asks:
		x.note("withdraw %s/%d", key.ID, handle)
		x.Withdraw(key, handle)
		delete(x.steps[key], handle)
	case n >= 12 && n < 14:
		x.register(name)
	case n >= 14 && n < 17:
		x.limit(name)
	case n == 17:
		x.draining = !x.draining
		x.note("draining %v", x.draining)
		x.SetDraining(x.draining)
	case n > 17:
		x.read()
	}
}

func (x *walk) register(name string) {
	x.kind[name] = 1 + x.rnd.IntN(2)
	x.note("handle %s %d", name, x.kind[name])
	if x.kind[name] == 1 {
		x.Handle(name, nothing)
	} else {
		x.HandleRemote(name, remote{})
	}
}

func (x *walk) limit(name string) {
	x.calm() // so that it is known which attempts have begun under the old limits
	var rules limits.Rules
	var err error
	add := func(r limits.Rule, e error) { rules, err = limits.Rules{r}, e }
	x.most[name], x.rated[name] = 0, false
	switch x.rnd.IntN(4) {
	case 0:
		add(limits.ParseConcurrency("1"))
		x.most[name] = 1
	case 1:
		add(limits.ParseConcurrency("2 per input.k"))
		x.most[name] = 2
	case 2:
		add(limits.ParseRate("3/1h"))
		x.rated[name] = true
	}
	x.note("limits of %s: %v", name, rules)
	if held, _ := x.limiter.Count(limits.HandlerKey{Name: name}); len(rules) > 0 { // slots stay
		x.allowed[name] = max(x.allowed[name], x.limitOf(name), held)
	} else {
		x.allowed[name] = math.MaxInt
		for _, steps := range x.steps {
			for _, s := range steps {
				s.counted = s.counted && s.handler != name
			}
		}
	}
	if err == nil {
		err = x.limiter.Set(x.t.Context(), limits.HandlerKey{Name: name}, rules)
	}
	if err != nil {
		x.bad("%v", err)
	}
}

// limitOf returns how many attempts of a handler may be in progress.
func (x *walk) limitOf(name string) int {
	if x.most[name] == 0 {
		return math.MaxInt
	}
	return x.most[name]
}

func (x *walk) ask(key store.RunKey, handle int64, s *walkStep) {
	p, v := x.Ask(run.Ask{Run: key, Workflow: "w", Handle: handle, Step: fmt.Sprint("s", handle), Handler: s.handler,
		Input: []byte(`{"k":"x"}`)})
	if s.asks, s.verdict = v != run.Begins, v; !s.asks {
		s.place, _ = p.(*handler.Place)
		x.begins(s)
	}
}

func (x *walk) begins(s *walkStep) {
	x.begun++
	s.place.Begins([]byte(`{"k":"x"}`))
	s.counted = x.most[s.handler] > 0 || x.rated[s.handler]
}

// read delivers the events to the runs. It reports whether there were any.
func (x *walk) read() bool {
	x.mu.Lock()
	mail := x.mail
	x.mail = nil
	x.mu.Unlock()
	for _, m := range mail {
		switch ev := m.ev.(type) {
		case run.Queued:
			if s := x.of(m.run, ev.Handle); s != nil && s.asks && s.verdict == run.Soon {
				s.verdict = run.Queues
			}
		case run.Admitted:
			x.admitted(m.run, ev)
		}
	}
	return len(mail) > 0
}

func (x *walk) admitted(key store.RunKey, ev run.Admitted) {
	s, place := x.of(key, ev.Handle), (*handler.Place)(nil)
	if ev.Place != nil {
		place, _ = ev.Place.(*handler.Place)
	}
	switch {
	case s == nil || s.handler != ev.Handler || s.place != nil:
		place.Return()
	case place == nil || ev.Again:
		s.asks = false
		place.Return()
		x.ask(key, ev.Handle, s)
	default:
		s.asks, s.place = false, place
		x.begins(s)
		x.Withdraw(key, ev.Handle)
	}
}

// calm waits until nothing happens any more.
func (x *walk) calm() {
	for synctest.Wait(); x.read(); synctest.Wait() {
	}
}

// inUse returns the number of attempts with a place by handler, and how many of them its limits count.
func (x *walk) inUse() (in, counted map[string]int) {
	in, counted = map[string]int{}, map[string]int{}
	for _, steps := range x.steps {
		for _, s := range steps {
			if s.place != nil {
				in[s.handler]++
			}
			if s.place != nil && s.counted {
				counted[s.handler]++
			}
		}
	}
	return in, counted
}

// settle waits until nothing happens any more, and checks the waiting attempts.
func (x *walk) settle() {
	x.t.Helper()
	x.calm()
	in, counted := x.inUse()
	all := in["a"] + in["b"]
	for _, name := range []string{"a", "b"} {
		if counted[name] > x.allowed[name] {
			x.bad("%d attempts of %s are in progress, %d may be", counted[name], name, x.allowed[name])
		}
		held, _ := x.limiter.Count(limits.HandlerKey{Name: name})
		x.allowed[name] = max(held, x.limitOf(name))
	}
	for key, steps := range x.steps {
		for handle, s := range steps {
			free := x.kind[s.handler] == 1 && all < 4 && in[s.handler] < 3 && !x.rated[s.handler] &&
				(x.most[s.handler] == 0 || in[s.handler] < x.most[s.handler])
			switch {
			case s.asks && !x.Asks(key):
				x.bad("%s/%d asks, and nobody knows", key.ID, handle)
			case s.asks && free && !x.draining:
				x.bad("%s/%d waits for %s with verdict %d, in use are %v", key.ID, handle, s.handler, s.verdict, in)
			}
		}
	}
}

// end ends everything, and checks that nothing is left.
func (x *walk) end() {
	x.draining = false
	x.SetDraining(false)
	x.settle()
	for key, steps := range x.steps {
		for handle, s := range steps {
			s.place.Return()
			x.Withdraw(key, handle)
			delete(steps, handle)
		}
	}
	x.settle()
	for _, name := range []string{"a", "b"} {
		if held, waiting := x.limiter.Count(limits.HandlerKey{Name: name}); held+waiting != 0 {
			x.bad("%s: %d hold a slot, %d wait", name, held, waiting)
		}
	}
	if n := x.Remembered(); n != 0 || x.busy != 0 {
		x.bad("%d are remembered, activity %d", n, x.busy)
	}
}
