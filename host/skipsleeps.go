package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// The first and the longest pause between two looks at a family of runs that waits for an event rather than for time.
// Each pause is twice as long as the previous one.
const (
	firstLook = time.Millisecond
	mostLook  = 500 * time.Millisecond
)

// SkipSleeps skips idle time for one run and its descendants: whenever the host is idle, the clock of these runs
// jumps to the next instant at which one of them wakes: a sleep, the timeout of a wait, the next attempt of a step,
// the run's own deadline. Workflows see that clock, and their journals hold its instants. All other runs, schedules,
// limits, rates and retention keep the clock of the host.
//
// It blocks until the run has ended or is stuck, and returns nil, or until ctx is done, and returns ctx's error.
// ErrNotFound if the run does not exist, ErrConflict if another call skips its sleeps. A run that has not ended by
// then keeps its clock, and its later sleeps take real time. Config.SkipSleeps moves the clock of a whole host
// instead.
func (s *scope) SkipSleeps(ctx context.Context, id string) error {
	root, err := s.key(ctx, id)
	var st store.RunState
	if err == nil {
		st, err = s.h.rt.Runs.State(ctx, root)
	}
	if err != nil {
		return translate(err)
	}
	clocks := &s.h.rt.Runs.Clocks
	if !clocks.Begin(root, st.Incarnation) {
		return fmt.Errorf("%w: the sleeps of run %q are skipped already", ErrConflict, id)
	}
	defer clocks.End(root)
	agreed := int64(math.MaxInt64)
	for pause := firstLook; ; pause = min(2*pause, mostLook) {
		if _, _, err := s.h.rt.WaitIdle(ctx); err != nil {
			return translate(err)
		}
		next, over, err := s.h.appointment(ctx, root)
		if over || err != nil {
			return translate(err)
		}
		// The host's own clock may have woken a child since the host was idle, and its end is then on the way to its parent. So the
		// clock leaps when two looks agree between which the host was idle.
		if next < math.MaxInt64 && next != agreed {
			pause, agreed = firstLook, next
			continue
		}
		agreed = math.MaxInt64
		if next < math.MaxInt64 {
			pause = firstLook
			clocks.Leap(root, next)
			for _, key := range clocks.Members(root) { // looking at a run makes its due deadlines happen
				if _, err := s.h.waking(ctx, key); err != nil {
					return translate(err)
				}
			}
			continue
		}
		t := clock.System().NewTimer(pause)
		select {
		case <-t.C():
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

// appointment returns the first instant at which a member of a family wakes by itself, math.MaxInt64 if there is
// none, and whether the call for its root may return.
func (h *Host) appointment(ctx context.Context, root store.RunKey) (unixMs int64, over bool, err error) {
	unixMs = math.MaxInt64
	seen, goesOn := map[store.RunKey]bool{}, false
	for queue := append([]store.RunKey{root}, h.rt.Runs.Clocks.Members(root)...); len(queue) > 0; queue = queue[1:] {
		key := queue[0]
		if seen[key] {
			continue
		}
		seen[key] = true
		x, err := h.waking(ctx, key)
		if err != nil {
			return 0, false, err
		}
		if key == root && x.over {
			return 0, true, nil
		}
		unixMs, goesOn = min(unixMs, x.unixMs), goesOn || x.goesOn
		for _, id := range x.children { // from this look on, a child that existed before is a member
			queue = append(queue, store.RunKey{Namespace: key.Namespace, ID: id})
		}
	}
	if goesOn { // it may act earlier
		unixMs = math.MaxInt64
	}
	return unixMs, false, nil
}

// waking describes when a run wakes by itself.
type waking struct {
	unixMs   int64 // math.MaxInt64: never
	over     bool  // it has ended, or is stuck
	goesOn   bool  // it continues by itself, as soon as its namespace's quota allows
	children []string
}

// waking looks at a run of a family. A run with the clock of the host, or one that does not exist, never wakes.
func (h *Host) waking(ctx context.Context, key store.RunKey) (waking, error) {
	x := waking{unixMs: math.MaxInt64}
	err := h.rt.Runs.Look(ctx, key, func(of *run.Run) error {
		x.over = of.Journal().Ended() != store.KindInvalid || of.State().Status == store.Stuck
		at := h.rt.Runs.Clocks.Now(math.MinInt64, key, store.RunKey{}, of.State().Incarnation, store.Incarnation{})
		x.over = x.over || at == math.MinInt64
		if x.over { // another run has taken its id
			return nil
		}
		now := h.cfg.Clock.Now().UnixMilli()
		x.goesOn = of.Exists() && of.Ready(now)
		if at, ok := of.NextWake(now); ok {
			x.unixMs = at
		}
		for open := range of.Journal().Handles {
			if open.Kind == store.KindChild && open.ChildID != "" {
				x.children = append(x.children, open.ChildID)
			}
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return x, err
}
