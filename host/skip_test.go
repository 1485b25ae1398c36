package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

// TestSkipSleeps skips the sleeps of a run and its child, which sleeps for five days: they end by their own virtual
// clock while the host's clock stands still, and other runs sleep on.
func TestSkipSleeps(t *testing.T) {
	p := newPrims(t)
	begun := p.Clock.Now()
	stranger := p.begin("child", 86_400, host.WithRunID("stranger"))
	retrying := p.begin("parent", childPlan{Child: "child", Sleep: 3600, OnEnd: "cancel"}, host.WithRunID("another"))
	family := p.begin("parent", childPlan{Child: "child", Sleep: 5 * 86_400, OnEnd: "cancel"}, host.WithRunID("family"))
	before := map[string]host.Run{}
	for _, id := range []string{stranger, retrying} {
		before[id] = get(t, p.Host, id)
	}
	if err := p.SkipSleeps(ctx, family); err != nil {
		t.Fatal(err)
	}
	if r := get(t, p.Host, family); r.Status != host.Completed || r.Ended.Sub(begun) < 5*24*time.Hour {
		t.Errorf("%s at %v, begun at %v", r.Status, r.Ended, begun)
	}
	if !p.Clock.Now().Equal(begun) {
		t.Errorf("the host's clock has moved by %v", p.Clock.Now().Sub(begun))
	}
	for id, was := range before {
		if r := get(t, p.Host, id); r.Status != was.Status || !r.Wake.Equal(was.Wake) || r.Entries != was.Entries {
			t.Errorf("%s was %s until %v, and is %s until %v", id, was.Status, was.Wake, r.Status, r.Wake)
		}
	}
	p.Clock.Advance(86_400 * time.Second)
	p.Settle()
	if r := get(t, p.Host, stranger); r.Status != host.Completed || r.Ended.Sub(begun) > 25*time.Hour {
		t.Errorf("the stranger is %s, ended at %v", r.Status, r.Ended)
	}
}

// TestSkipSleepsOrder has a child time out during a longer sleep: its timeout and its sleep use the same clock.
func TestSkipSleepsOrder(t *testing.T) {
	p := newPrims(t)
	id := p.begin("parent", childPlan{Child: "child", Sleep: 86_400, Timeout: 3600, OnEnd: "cancel"})
	if err := p.SkipSleeps(ctx, id); err != nil {
		t.Fatal(err)
	}
	if got := result[string](p, id); !strings.Contains(got, "did not end within the time that its start gave it") {
		t.Error(got)
	}
}

// TestSkipSleepsOfNobody refuses a missing run, and ends with its context for a run that waits for an event.
func TestSkipSleepsOfNobody(t *testing.T) {
	p := newPrims(t)
	if err := p.SkipSleeps(ctx, "nobody"); !errors.Is(err, host.ErrNotFound) {
		t.Error(err)
	}
	id := p.begin("receive", 1)
	soon, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	if err := p.SkipSleeps(soon, id); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
