package guest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/store"
)

// idleGuest is the guest of a command, without an instance.
func idleGuest() *guest {
	g := &guest{}
	g.Machine = replay.New(replay.Config{Mode: replay.StepFn})
	g.init(&Runner{}, &module.Module{Command: true}, store.RunKey{})
	return g
}

// TestOutputIsHeld prints endlessly: the kept output is bounded and counted.
func TestOutputIsHeld(t *testing.T) {
	g := idleGuest()
	if n := g.held(); n != 0 {
		t.Error("before it prints:", n)
	}
	p := make([]byte, 64<<10)
	for range 100 {
		g.Output(1, p)
		g.Output(2, p[1:])
	}
	if n := g.held(); n < abi.MaxPayloadBytes+abi.MaxLogBytes || n > 4*abi.MaxPayloadBytes {
		t.Error("it holds", n)
	}
	g.Complete(make([]byte, 1000))
	before := g.held()
	g.Complete(make([]byte, 500_000))
	if n := g.held(); n < before+400_000 {
		t.Error("with its result", n)
	}
}

// written is a journal that accepts every call.
type written []store.Entry

func (w *written) Entries() []store.Entry      { return *w }
func (w *written) CallRoom() error             { return nil }
func (w *written) CheckAttribute(string) error { return nil }
func (w *written) Now() int64                  { return 0 }
func (w *written) Append(e store.Entry) (store.Entry, error) {
	e.Seq = store.Seq(len(*w))
	*w = append(*w, e)
	return e, nil
}

// Waiting is not computing and does not make a slice, even if a body uses the guest's instance in the meantime.
// Otherwise the guest would have to wait behind all computing guests.
func TestAWaitIsNoSlice(t *testing.T) {
	for name, wait := range map[string]func(g *guest) error{
		"await": func(g *guest) error { _, err := g.Await([]int64{1}); return err },
		"poll":  func(g *guest) error { _, err := g.Poll(engine.Poll{Events: true}); return err },
		"body sleeps": func(g *guest) error {
			return g.bodyWait(engine.Poll{HasClock: true, TimeoutNs: int64(longWait - 1)})
		},
		"yields": func(g *guest) error { return g.Untimed(func() error { <-time.NewTimer(time.Second).C; return nil }) },
	} {
		synctest.Test(t, func(t *testing.T) {
			g, slices := idleGuest(), 0
			g.ctx = t.Context()
			g.Machine = replay.New(replay.Config{Mode: replay.Live, Tail: &written{{Kind: store.KindStarted}, {Seq: 1, Kind: store.KindActivated}}})
			g.Limits = Limits{Calls: 1000, CPU: time.Hour}
			g.Slice = func() error { slices++; return nil }
			g.wait = func() error { <-time.NewTimer(time.Second).C; return errSuspended }
			if h, err := g.Sleep("nap", time.Hour.Milliseconds()); err != nil || h != 1 {
				t.Fatal(h, err)
			}
			for range 400 {
				if err := g.Enter(); err != nil {
					t.Fatal(err)
				}
				if err := wait(g); err != nil && !errors.Is(err, errSuspended) {
					t.Fatal(name, err)
				}
			}
			if slices > 0 {
				t.Errorf("%s: %d slices", name, slices)
			}
		})
	}
}
