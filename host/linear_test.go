package host_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

var (
	linearRounds = flag.Int("linear.rounds", 10, "how many histories of calls are checked")
	linearSeed   = flag.Uint64("linear.seed", 1, "of the first history")
)

// The size of one history: few runs, so that calls collide, and few calls per client, since the check takes
// exponential time.
const (
	linearClients = 4
	linearCalls   = 30 // of each client
	linearRuns    = 5
)

// call is a call of the API, and outcome its outcome.
type call struct {
	run  int
	what string // start, add, end, terminate, get, ask, result
}

type outcome struct {
	what string // ok, taken, none, ended or unknown; for get, the status
	n    int    // of ask and result
}

// known is the model's state of a run.
type known struct {
	there      bool
	accepted   int  // signals before the one that ends it
	asked      bool // a signal was accepted that ends it
	seen       int  // the most that a query has told
	completed  bool
	terminated bool
}

// step returns the possible states of a run after a call with an outcome; none if the outcome is impossible.
func step(state, input, output any) []any {
	k, c, o := state.(known), input.(call), output.(outcome)
	if o.what == "unknown" { // it has taken effect, or has not
		next := []any{k}
		for _, what := range []string{"ok", "taken", "none", "ended"} {
			next = append(next, step(k, c, outcome{what: what})...)
		}
		return next
	}
	if next, ok := k.after(c, o); ok {
		return []any{next}
	}
	return nil
}

// after returns the state after a call with an outcome, false if the outcome is impossible.
func (k known) after(c call, o outcome) (known, bool) {
	over := k.completed || k.terminated
	if o.what == "none" {
		return k, !k.there && c.what != "start"
	}
	if c.what == "start" {
		was := k.there
		k.there = true
		return k, was == (o.what == "taken")
	}
	if !k.there {
		return k, false
	}
	if o.what == "ended" || o.what == "completed" { // the run has ended, or ends by itself before this call
		k.completed = k.completed || !over
		if o.what == "completed" || c.what == "result" {
			return k, k.completed && k.asked
		}
		return k, over || k.asked
	}
	switch c.what {
	case "add":
		if !k.asked {
			k.accepted++
		}
		return k, !over
	case "end":
		k.asked = true
		return k, !over
	case "terminate":
		k.terminated = true
		return k, !over
	case "get":
		return k, (o.what == "terminated") == k.terminated && (k.terminated || !k.completed)
	case "ask": // also of a run that has ended
		fits := o.n >= k.seen && o.n <= k.accepted
		k.seen = o.n
		return k, fits
	case "result":
		k.completed = true
		return k, !k.terminated && k.asked && o.n == k.accepted
	}
	return k, false
}

// history is the calls of several clients to one host, which crashes in the meantime.
type history struct {
	t    *testing.T
	h    *hosttest.Host
	now  atomic.Int64
	mu   sync.RWMutex // read-locked while h.Host is used
	ops  []porcupine.Operation
	opMu sync.Mutex
}

// TestHistories has several clients call a host that crashes, and checks that the calls are linearizable. The result
// has all signals that were accepted before the last one, and what a query has returned stays true.
func TestHistories(t *testing.T) {
	wasm := hosttest.Build(t, "testdata/collector")
	unknown, calls := 0, 0
	for round := range uint64(*linearRounds) {
		seed := *linearSeed + round
		hh := &history{t: t, h: hosttest.New(t)}
		_, err := hh.h.Upload(ctx, "collector", wasm)
		do(t, err)
		hh.run(seed)
		every := porcupine.NondeterministicModel{Init: func() []any { return []any{known{}} }, Step: step, Partition: byRun}
		model := every.ToModel()
		switch porcupine.CheckOperationsTimeout(model, hh.ops, time.Minute) {
		case porcupine.Illegal:
			t.Errorf("seed %d: no order explains %s", seed, hh.illegal(model))
		case porcupine.Unknown:
			t.Errorf("seed %d: checking takes too long", seed)
		}
		for _, op := range hh.ops {
			calls++
			if op.Output.(outcome).what == "unknown" {
				unknown++
			}
		}
		hh.h.Stop()
	}
	t.Logf("%d histories from seed %d on, %d calls, %d of them with an unknown outcome", *linearRounds, *linearSeed, calls, unknown)
}

func byRun(all []porcupine.Operation) [][]porcupine.Operation {
	parts := make([][]porcupine.Operation, linearRuns)
	for _, op := range all {
		parts[op.Input.(call).run] = append(parts[op.Input.(call).run], op)
	}
	return parts
}

// illegal returns the calls of the runs that are not linearizable.
func (hh *history) illegal(model porcupine.Model) (text string) {
	model.Partition = nil
	for run, ops := range byRun(hh.ops) {
		if !porcupine.CheckOperations(model, ops) {
			text += fmt.Sprintf("\nrun %d:", run)
			for _, op := range ops {
				text += fmt.Sprintf("\n%4d-%4d client %d %s: %+v", op.Call, min(op.Return, 9999), op.ClientId, op.Input.(call).what, op.Output)
			}
		}
	}
	return text
}

// run lets the clients make their calls, and crashes the host three times.
func (hh *history) run(seed uint64) {
	var clients, all sync.WaitGroup
	ended := make(chan struct{})
	for client := range linearClients {
		clients.Go(func() { hh.client(client, rand.New(rand.NewPCG(seed, uint64(client)))) })
	}
	all.Go(func() {
		random := rand.New(rand.NewPCG(seed, 99))
		for range 3 {
			hh.h.CrashAt(random.IntN(30), random.IntN(2) == 0)
			for !hh.h.Crashed() {
				select {
				case <-ended:
					return
				default:
					hh.pause()
				}
			}
			hh.mu.Lock()
			hh.h.Reopen()
			hh.mu.Unlock()
		}
	})
	clients.Wait()
	close(ended)
	all.Wait()
}

// pause lets others run.
func (hh *history) pause() {
	t := time.NewTimer(100 * time.Microsecond)
	<-t.C
}

func (hh *history) client(client int, random *rand.Rand) {
	whats := []string{"start", "add", "add", "add", "add", "end", "terminate", "get", "ask", "ask", "result"}
	for range linearCalls {
		c := call{random.IntN(linearRuns), whats[random.IntN(len(whats))]}
		if (c.what == "end" || c.what == "terminate") && random.IntN(2) == 0 {
			c.what = "add" // so that runs live for a while
		}
		hh.mu.RLock()
		h := hh.h.Host
		from := hh.now.Add(1)
		o := hh.call(h, c)
		hh.mu.RUnlock()
		to := hh.now.Add(1)
		if o.what == "nothing" {
			continue
		}
		if o.what == "unknown" {
			to = math.MaxInt64
		}
		hh.opMu.Lock()
		hh.ops = append(hh.ops, porcupine.Operation{ClientId: client, Input: c, Call: from, Output: o, Return: to})
		hh.opMu.Unlock()
	}
}

// call makes a call.
func (hh *history) call(h *host.Host, c call) (o outcome) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	id := fmt.Sprint("r", c.run)
	var err error
	switch c.what {
	case "start":
		_, err = h.Start(ctx, "collector", nil, host.WithRunID(id), host.OnConflict(host.ConflictFail))
	case "add":
		err = h.Signal(ctx, id, "s", 1)
	case "end":
		err = h.Signal(ctx, id, "s", -1)
	case "terminate":
		err = h.Terminate(ctx, id)
	case "get":
		var r host.Run
		r, err = h.Get(ctx, id)
		if err == nil {
			o.what = map[bool]string{true: r.Status.String(), false: "live"}[r.Status.Terminal()]
		}
	case "ask":
		var b []byte
		b, err = h.Query(ctx, id, "n", nil)
		if err == nil {
			_, err = fmt.Sscan(string(b), &o.n)
		} else if strings.Contains(err.Error(), "the run has not begun") {
			return outcome{what: "ok"} // it has taken nothing yet
		} else if strings.Contains(err.Error(), "it was at work") {
			r, e := h.Get(ctx, id)
			if errors.Is(e, host.ErrStoreFailed) || errors.Is(e, host.ErrClosed) || r.Status == host.Terminated {
				return outcome{what: "unknown"} // it was terminated before it reached a wait, unless the host can no longer tell
			}
		}
	case "result":
		var r host.Run
		r, err = h.Get(ctx, id)
		if err == nil && !r.Status.Terminal() {
			return outcome{what: "nothing"}
		}
		if err == nil {
			var b []byte
			b, err = h.ResultRaw(ctx, id)
			if err == nil {
				_, err = fmt.Sscan(string(b), &o.n)
			}
		}
		var failed *host.RunError
		if errors.As(err, &failed) {
			return outcome{what: "nothing"}
		}
	}
	switch {
	case err == nil && o.what == "":
		o.what = "ok"
	case err == nil:
	case errors.Is(err, host.ErrConflict) && c.what == "start":
		o.what = "taken"
	case errors.Is(err, host.ErrNotFound):
		o.what = "none"
	case errors.Is(err, host.ErrTerminal):
		o.what = "ended"
	case errors.Is(err, host.ErrStoreFailed), errors.Is(err, host.ErrClosed):
		o.what = "unknown"
	default:
		hh.t.Errorf("%+v: %v", c, err)
		o.what = "unknown"
	}
	return o
}
