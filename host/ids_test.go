package host_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store"
)

// taken returns the ids of deleted runs that cannot be used yet.
func (p *prims) taken() (ids []string) {
	p.t.Helper()
	s := p.OpenStore()
	for part := range store.PartitionID(store.Partitions) {
		list, err := s.Ended(ctx, store.EndedQuery{Partition: part, Deleted: true, UntilMs: p.Clock.Now().UnixMilli(), Limit: 100})
		do(p.t, err)
		for _, at := range list {
			ids = append(ids, at.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// TestIDsThatNobodyNamesAgain deletes runs: only ids that a caller may use again stay reserved.
func TestIDsThatNobodyNamesAgain(t *testing.T) {
	p := newPrims(t)
	drawn, named := p.begin("child", 1), p.begin("child", 1, host.WithRunID("order-1"))
	p.Finish(named)
	again, err := p.Restart(ctx, named, "", "")
	do(t, err)
	p.Finish(drawn)
	p.Finish(again.ID)
	for _, id := range []string{drawn, again.ID, named} {
		do(t, p.Delete(ctx, id))
		if err := p.Delete(ctx, id); !errors.Is(err, host.ErrNotFound) {
			t.Errorf("%s is deleted twice: %v", id, err)
		}
	}
	want(t, fmt.Sprint(p.taken()), "[order-1]")
	p.Crash()
	want(t, fmt.Sprint(p.taken()), "[order-1]")
	if _, err := p.Get(ctx, drawn); !errors.Is(err, host.ErrNotFound) {
		t.Error(err)
	}
	p.begin("child", 1, host.WithRunID(drawn)) // whoever names it means it
}

// TestIDsOfDeletedChildren deletes parents and their children, in either order and together: nothing is left of a
// child once no run can ask for its outcome.
func TestIDsOfDeletedChildren(t *testing.T) {
	p := newPrims(t)
	parent := func(id, child string) string {
		p.begin("parent", map[string]any{"Child": "child", "Sleep": 1, "ID": child, "OnEnd": "cancel"}, host.WithRunID(id))
		got, _, slept := strings.Cut(result[string](p, id), " child slept")
		if !slept || child != "" && got != child {
			t.Fatal(got)
		}
		return got
	}
	first := parent("a", "")
	do(t, p.Delete(ctx, first))
	want(t, fmt.Sprint(p.taken()), fmt.Sprint([]string{first})) // the parent may be retried, and would start the child again
	do(t, p.Delete(ctx, "a"))
	want(t, fmt.Sprint(p.taken()), "[a]")
	first = parent("b", "")
	do(t, p.Delete(ctx, "b"))
	do(t, p.Delete(ctx, first))
	want(t, fmt.Sprint(p.taken()), "[a b]")
	chosen := parent("c", "chosen") // as another run may choose it
	do(t, p.Delete(ctx, "c"))
	do(t, p.Delete(ctx, chosen))
	want(t, fmt.Sprint(p.taken()), "[a b c chosen]")
	for i := range 20 {
		parent(fmt.Sprint("together", i), "")
	}
	do(t, p.Retentions().Set(ctx, host.Retention{Completed: time.Minute}))
	p.Advance(time.Hour)
	_, err := p.Retentions().Sweep(ctx, false)
	do(t, err)
	for _, id := range p.taken() {
		if strings.Contains(id, ".") {
			t.Errorf("%s is left of a child whose parent is deleted, too", id)
		}
	}
}

// TestIDsOfChildrenOfEarlierIterations deletes the child of an earlier iteration while the parent lives.
func TestIDsOfChildrenOfEarlierIterations(t *testing.T) {
	p := newPrims(t)
	id := p.begin("generations", 3)
	p.Finish(id)
	n := 0
	for r, err := range p.Runs(ctx, host.Query{Workflow: "child"}) {
		do(t, err)
		do(t, p.Delete(ctx, r.ID))
		n++
	}
	if left := p.taken(); n != 4 || len(left) != 1 || !strings.HasPrefix(left[0], id+".3.") {
		t.Errorf("of %d children there is left %v, want that of the newest iteration", n, left)
	}
}

// TestKeepIDsFor sets how long the ids of deleted runs stay reserved in a namespace.
func TestKeepIDsFor(t *testing.T) {
	p := newPrims(t)
	use := p.uploadTo("other")
	for _, r := range []host.Retention{{KeepIDsFor: time.Second}, {KeepIDsFor: -time.Hour}, {Workflow: "child", KeepIDsFor: time.Hour}} {
		if err := p.Retentions().Set(ctx, r); !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	do(t, p.Retentions().Set(ctx, host.Retention{KeepIDsFor: 36 * time.Hour}))
	list, err := p.Retentions().List(ctx)
	do(t, err)
	want(t, fmt.Sprint(list), fmt.Sprint([]host.Retention{{KeepIDsFor: 36 * time.Hour}}))
	p.begin("child", 1, host.WithRunID("a"))
	_, err = use.Start(ctx, "child", 1, host.WithRunID("a"))
	do(t, err)
	p.Finish("a")
	do(t, p.Delete(ctx, "a"))
	do(t, use.Delete(ctx, "a"))
	_, err = p.Start(ctx, "child", 1, host.WithRunID("a"))
	if !errors.Is(err, host.ErrConflict) || !strings.Contains(err.Error(), "its id is free again 1d12h after that") {
		t.Fatal(err)
	}
	p.Advance(37 * time.Hour)
	p.Crash()
	want(t, fmt.Sprint(p.taken()), "[a]")
	swept, err := p.Retentions().Sweep(ctx, false)
	do(t, err)
	want(t, swept.Forgotten, 1)
	want(t, fmt.Sprint(p.taken()), "[]")
	swept, err = use.Retentions().Sweep(ctx, false)
	do(t, err)
	want(t, swept.Forgotten, 0)
	use = p.namespace("other")
	if _, err := use.Start(ctx, "child", 1, host.WithRunID("a")); !errors.Is(err, host.ErrConflict) {
		t.Fatal(err)
	}
}

// TestChildrenOfAnIDThatIsFreeAgain starts a run under the id of a deleted run whose child still exists: the new run
// gets its own child.
func TestChildrenOfAnIDThatIsFreeAgain(t *testing.T) {
	p := newPrims(t)
	do(t, p.Retentions().Set(ctx, host.Retention{KeepIDsFor: time.Hour}))
	plan := map[string]any{"Child": "child", "Sleep": 1, "OnEnd": "cancel"}
	for range 2 {
		p.begin("parent", plan, host.WithRunID("a"))
		if got := result[string](p, "a"); !strings.HasSuffix(got, " child slept") {
			t.Fatal(got)
		}
		do(t, p.Delete(ctx, "a"))
		p.Advance(2 * time.Hour)
		_, err := p.Retentions().Sweep(ctx, false)
		do(t, err)
	}
}

// TestDebounceAfterItsRunWasDeleted starts another run within the window of a run that was deleted: it gets its own
// id.
func TestDebounceAfterItsRunWasDeleted(t *testing.T) {
	p := newPrims(t)
	_, err := p.StartWindows().Set(ctx, host.StartWindow{Workflow: "child", Debounce: "1s", Longest: "1h"})
	do(t, err)
	first := p.begin("child", 1)
	p.Finish(first)
	do(t, p.Delete(ctx, first))
	want(t, fmt.Sprint(p.taken()), "[]")
	second := p.begin("child", 1)
	if second == first {
		t.Fatal("the id of a deleted run is another run's")
	}
	third, err := p.Start(ctx, "child", 2)
	do(t, err)
	want(t, third.ID, second)
	p.Finish(second)
	do(t, p.Delete(ctx, second))
	want(t, fmt.Sprint(p.taken()), "[]")
}
