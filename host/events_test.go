package host_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// heard records the events of a host.
type heard struct {
	mu          sync.Mutex
	lines       []string
	activations []host.ActivationInfo
	attempts    []host.AttemptInfo
	commits     int
	bytes       int
}

func (h *heard) say(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
}

func (h *heard) has(line string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.lines, func(l string) bool { return strings.Contains(l, line) })
}

func (h *heard) said() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.lines)
}

func (h *heard) events(c *host.Config) {
	c.Events = host.Events{
		RunStarted:   func(r host.Run) { h.say("started %s%s", r.Namespace, r.ID) },
		RunEnded:     func(r host.Run, lived time.Duration) { h.say("ended %s%s %s %v", r.Namespace, r.ID, r.Status, lived) },
		RunDeleted:   func(r host.Run) { h.say("deleted %s%s %s", r.Namespace, r.ID, r.Status) },
		RunStuck:     func(r host.Run) { h.say("stuck %s %s", r.ID, r.Status) },
		RunCommitted: func(r host.Run) { h.say("committed %s", r.ID) },
		Wake:         func(w host.WakeInfo) { h.say("wake %s%s %v", w.Namespace, w.RunID, w.Late) },
		Activation: func(a host.ActivationInfo) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.activations = append(h.activations, a)
		},
		AttemptEnded: func(a host.AttemptInfo) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.attempts = append(h.attempts, a)
		},
		Commit: func(c host.CommitInfo) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.commits, h.bytes = h.commits+c.Runs, h.bytes+c.Bytes
		},
		UploadRefused:     func(name string, err error) { h.say("refused %s %v", name, errors.Is(err, host.ErrRejected)) },
		StoreFailed:       func(err error) { h.say("failed %v", errors.Is(err, host.ErrStoreFailed)) },
		PartitionAcquired: func(p int) { h.say("acquired %d.", p) },
		PartitionLost:     func(p int, err error) { h.say("lost %d %v", p, err) },
		HostFault:         func(f host.FaultInfo) { h.say("fault %s", f.RunID) },
	}
}

func TestEvents(t *testing.T) {
	h := &heard{}
	p := newPrims(t, hosttest.WithConfig(h.events))
	ns := p.uploadTo("a")
	p.begin("child", 60, host.WithRunID("nap"))
	p.begin("child", 13, host.WithRunID("fails"))
	if _, err := ns.Start(ctx, "child", 3600, host.WithRunID("ends")); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.fails = 1
	p.mu.Unlock()
	p.begin("retryable", nil, host.WithRunID("steps"))
	p.Settle()
	if err := ns.Terminate(ctx, "ends"); err != nil {
		t.Fatal(err)
	}
	p.Advance(time.Hour)
	if _, err := p.Upload(ctx, "bad", []byte("not Wasm")); err == nil {
		t.Fatal("accepted")
	}
	for _, line := range []string{"started nap", "started aends", "ended nap completed 1m0s", "ended fails failed 0s",
		"ended aends terminated 0s", "committed nap", "wake nap 0s", "refused bad true", "acquired 0.", "acquired 63."} {
		if !h.has(line) {
			t.Errorf("nothing was said of %q", line)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	ends := map[string]bool{}
	for _, a := range h.activations {
		ends[a.RunID+" "+a.End] = true
		if a.Replay > a.Total || a.Total <= 0 || a.Workflow == "" || a.Version != 1 || a.Fuel <= 0 {
			t.Errorf("%+v", a)
		}
		if a.RunID == "nap" && (a.End == "completed") != (a.Replayed > 0 || a.Thawed) {
			t.Errorf("%+v", a)
		}
	}
	for _, want := range []string{"nap suspended", "nap completed", "fails failed", "ends suspended"} {
		if !ends[want] {
			t.Errorf("no activation of %s: %v", want, ends)
		}
	}
	if h.commits == 0 || h.bytes < 64*h.commits || len(h.attempts) == 0 {
		t.Errorf("%d commits of %d bytes, %d attempts", h.commits, h.bytes, len(h.attempts))
	}
	for _, a := range h.attempts {
		if a.Step.RunID != "steps" || a.Step.Attempt < 1 || a.Duration <= 0 {
			t.Errorf("%+v", a)
		}
	}
}

// The activation that ended a run is reported before the end of the run, even if the callback is slow.
func TestLastActivationComesBeforeTheEnd(t *testing.T) {
	h := &heard{}
	p := newPrims(t, hosttest.WithConfig(func(c *host.Config) {
		h.events(c)
		c.Events.Activation = func(a host.ActivationInfo) {
			for range 10_000 { // give the commit of the end every chance to be reported first
				runtime.Gosched()
			}
			h.say("activation %s %s", a.RunID, a.End)
		}
	}))
	p.begin("child", 60, host.WithRunID("nap"))
	p.begin("child", 13, host.WithRunID("fails"))
	p.Advance(time.Hour)
	for run, end := range map[string]string{"nap": "completed", "fails": "failed"} {
		var order []string
		for _, line := range h.said() {
			if strings.HasPrefix(line, "ended "+run) || line == "activation "+run+" "+end {
				order = append(order, strings.Fields(line)[0])
			}
		}
		if !slices.Equal(order, []string{"activation", "ended"}) {
			t.Errorf("of %s came %v", run, order)
		}
	}
}

// TestEventsOfBodies: attempts of bodies in the instance of their workflow are reported, too.
func TestEventsOfBodies(t *testing.T) {
	h := &heard{}
	l := newLab(t, hosttest.WithConfig(h.events))
	l.begin("bodies", 1, host.WithRunID("r"))
	l.Advance(time.Hour)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.attempts) != 1 || h.attempts[0].Step.Name != "body-0" || h.attempts[0].Handler != "" {
		t.Fatalf("%+v", h.attempts)
	}
}

func TestEventsOfFailure(t *testing.T) {
	h := &heard{}
	p := newPrims(t, hosttest.WithConfig(h.events))
	p.CrashAt(0, false)
	if _, err := p.Start(ctx, "child", 60); !errors.Is(err, host.ErrStoreFailed) {
		t.Fatal(err)
	}
	if !h.has("failed true") {
		t.Error(h.lines)
	}
}
