package host_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store/memstore"
)

func stormHandlers(h *host.Host) {
	h.HandleRawStep("step", func(context.Context, []byte) ([]byte, error) { return nil, nil })
	h.HandleRawStep("flaky", func(ctx context.Context, _ []byte) ([]byte, error) {
		select {
		case <-time.After(time.Duration(rand.IntN(4)) * time.Millisecond):
		case <-ctx.Done():
		}
		if rand.IntN(2) == 0 {
			return nil, errors.New("flaky")
		}
		return []byte("1"), nil
	})
}

// stormy is a workflow that makes progress by itself: a step, two steps beside a body, a child, a sleep, and a step
// whose handler is registered late.
func stormy() []byte {
	m := wasmgen.New(2)
	step := func(name, handler, opts string) {
		m.Text(name).Text("host/" + handler).Text("1").Text(opts).Call(abi.FnStepStart)
	}
	m.Text("first").Text("host/step").Text("1").Text("").I32(64).I32(64).Call(abi.FnStepDo).Drop()
	step("a", "flaky", `{"attempts":4,"delay":"3ms"}`)
	m.Set(0)
	step("b", "late", "")
	m.Set(1)
	m.Text("kid").Text("storm").Text("").Text(`{"on_end":"terminate"}`).Call(abi.FnChildStart).Drop()
	m.Text("body").Text("").Call(abi.FnStepBegin).Set(0).Get(0).IfZero64().I32(0).I32(0).I32(0).Call(abi.FnStepEnd).End()
	m.I32(32).Get(0).Store64().I32(32).I32(1).Call(abi.FnAwait).Drop()
	m.Text("nap").I64(2).Call(abi.FnSleep).Drop()
	m.I32(32).Get(1).Store64().I32(32).I32(1).Call(abi.FnAwait).Drop()
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

// TestStorm performs every action on a few runs concurrently while hosts come and go. In the end all runs end.
func TestStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	data := memstore.New()
	const rounds = 4
	for round := range rounds {
		h, err := host.Open(ctx, host.Config{Store: data.Open(), Linger: time.Millisecond, Drain: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		stormHandlers(h)
		if round == 0 {
			_, err := h.Upload(ctx, "storm", stormy(), host.AllowStep("*"))
			do(t, err)
		}
		storm(t, h, uint64(round))
		if round == rounds-1 {
			calm(t, h)
		}
		soon(t, "Close", func() { do(t, h.Close()) })
	}
}

// storm runs a host for a while, twice, and acts on its runs.
func storm(t *testing.T, h *host.Host, seed uint64) {
	t.Helper()
	var wg sync.WaitGroup
	over, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	wg.Go(func() { // Run begins late, ends, and begins again
		for over.Err() == nil {
			<-time.After(20 * time.Millisecond)
			own, cancel := context.WithTimeout(over, 300*time.Millisecond)
			do(t, h.Run(own))
			cancel()
		}
	})
	wg.Go(func() {
		<-time.After(500 * time.Millisecond)
		h.HandleRawStep("late", func(context.Context, []byte) ([]byte, error) { return []byte("1"), nil })
	})
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(g)))
			for over.Err() == nil {
				act(t, h, r, fmt.Sprint("r", r.IntN(6)))
			}
		})
	}
	wg.Wait()
}

// act performs a random action on a run, perhaps with a context that ends in the meantime.
func act(t *testing.T, h *host.Host, r *rand.Rand, id string) {
	own := ctx
	if r.IntN(4) == 0 {
		var cancel context.CancelFunc
		own, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(2000))*time.Microsecond)
		defer cancel()
	}
	var err error
	name := ""
	switch n := r.IntN(14); n {
	case 0, 1, 2:
		name = "start"
		_, err = h.Start(own, "storm", nil, host.WithRunID(id), host.OnConflict(host.ConflictPolicy(n)))
	case 3:
		name = "replace"
		_, err = h.Start(own, "storm", nil, host.WithRunID(id), host.OnConflict(host.ConflictReplace))
	case 4:
		name = "pause"
		_, err = h.Pause(own, id)
	case 5, 6:
		name = "unpause"
		_, err = h.Unpause(own, id)
	case 7:
		name = "retry"
		err = h.Retry(own, id, 0)
	case 8:
		name = "cancel"
		_, err = h.Cancel(own, id)
	case 9:
		name = "terminate"
		err = h.Terminate(own, id)
	case 10:
		name = "delete"
		err = h.Delete(own, id)
	case 11:
		name = "restart"
		_, err = h.Restart(own, id, fmt.Sprint("c", r.IntN(50)), []string{"", "a", "nap"}[r.IntN(3)])
	case 12:
		name = "signal"
		err = h.Signal(own, id, "x", nil)
	case 13:
		name = "query"
		_, err = h.Query(own, id, "x", nil)
	}
	var q *host.QueryError
	for _, e := range []error{nil, host.ErrTerminal, host.ErrConflict, host.ErrNotFound, host.ErrBusy, context.DeadlineExceeded,
		context.Canceled} {
		if errors.Is(err, e) {
			return
		}
	}
	if !errors.As(err, &q) {
		t.Errorf("%s %s: %v", name, id, err)
	}
}

// calm lets all runs end, and replays them.
func calm(t *testing.T, h *host.Host) {
	t.Helper()
	own, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- h.Run(own) }()
	h.HandleRawStep("late", func(context.Context, []byte) ([]byte, error) { return []byte("1"), nil })
	for round := range 3 {
		for r, err := range h.Runs(ctx, host.Query{}) {
			do(t, err)
			if r.Status == host.Paused {
				_, _ = h.Unpause(ctx, r.ID) // it may end meanwhile
			}
			if round == 2 && r.Status == host.Stuck {
				t.Error(r.ID, r.Status, r.Reason)
			}
		}
		<-time.After(300 * time.Millisecond)
	}
	for r, err := range h.Runs(ctx, host.Query{}) {
		do(t, err)
		if r.Parent == "" && !r.Status.Terminal() {
			until(t, h, r.ID, func(r host.Run) bool { return r.Status.Terminal() })
		}
		if err := h.Replay(ctx, r.ID); err != nil && r.Status != host.Terminated {
			t.Error("replay", r.ID, r.Status, err)
		}
	}
	stop()
	do(t, <-done)
}
