package guest

import (
	"errors"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/store"
)

// idleGuest is a guest without an instance.
func idleGuest(fuel int64, limit time.Duration) *guest {
	g := &guest{Machine: replay.New(replay.Config{Mode: replay.StepFn})}
	g.init(&Runner{cfg: Config{Fuel: fuel, CPU: limit, HostCalls: abi.MaxHostCalls}}, &Module{command: true}, store.RunKey{})
	return g
}

// TestFinding02_WorkIsFuel uses fuel up in calls, in portions of any size.
func TestFinding02_WorkIsFuel(t *testing.T) {
	for _, portion := range []int64{1 << 16, engine.FuelSlice, 3 * engine.FuelSlice} {
		g := idleGuest(10*engine.FuelSlice, time.Hour)
		var worked int64
		for g.Work(portion) == nil {
			worked += portion
		}
		if worked < 8*engine.FuelSlice || worked >= 11*engine.FuelSlice {
			t.Errorf("in portions of %d: %d bytes", portion, worked)
		}
	}
}

func TestFinding02_WorkLooksAtTheClock(t *testing.T) {
	g := idleGuest(0, -1)
	g.fuel = 0
	if err := g.Work(engine.FuelSlice); !errors.Is(err, errSlow) {
		t.Error(err)
	}
	g = idleGuest(0, -1)
	var err error
	for range callsPerLook {
		if err = g.Enter(); err != nil {
			break
		}
	}
	if !errors.Is(err, errSlow) {
		t.Error("calls:", err)
	}
	g = idleGuest(0, time.Hour)
	halted := errors.New("halted")
	g.halt(halted)
	if err := g.Work(1); !errors.Is(err, halted) {
		t.Error(err)
	}
}

// TestFinding21_OutputIsHeld prints without end: what is kept of it is bounded, and counted.
func TestFinding21_OutputIsHeld(t *testing.T) {
	g := idleGuest(1, time.Hour)
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
	g = idleGuest(1, time.Hour)
	g.mod.command = false
	g.Output(1, append(p[:1000:1000], '\n'))
	if g.stdout != nil {
		t.Error("standard output is kept although it is not the result")
	}
}
