package handler_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host/internal/handler"
	"github.com/wfhost/wfhost/host/internal/quarantine"
	"github.com/wfhost/wfhost/host/internal/run"
	"github.com/wfhost/wfhost/store"
)

// limiterFunc is a limiter with given answers.
type limiterFunc struct {
	enter func(e handler.Entrant) (handler.Slot, run.Verdict)
}

func (*limiterFunc) Limited(store.NamespaceID, string) (bool, bool) { return true, true }
func (*limiterFunc) Load(context.Context, store.NamespaceID) error  { return nil }
func (l *limiterFunc) Enter(_ run.Ask, e handler.Entrant) (handler.Slot, run.Verdict) {
	return l.enter(e)
}
func (*limiterFunc) SetDraining(bool)    {}
func (*limiterFunc) Next() (int64, bool) { return 0, false }

type emptySlot struct{}

func (emptySlot) Counts() bool             { return true }
func (emptySlot) Waits() handler.SlotWaits { return handler.SlotWaits{} }
func (emptySlot) Begins([]byte)            {}
func (emptySlot) Return()                  {}

// noted notes what runs are told.
type noted struct {
	mu       sync.Mutex
	admitted []run.Admitted
	queued   int
}

func (r *noted) Admitted(_ store.RunKey, ev run.Admitted) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.admitted = append(r.admitted, ev)
}

func (r *noted) Queued(store.RunKey, int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queued++
}

// TestHeldRunOfALimitedHandler has a run that has crashed the host twice make an attempt: it waits for the run's
// trial, also after it had to wait for a slot.
func TestHeldRunOfALimitedHandler(t *testing.T) {
	dir := t.TempDir()
	silent := slog.New(slog.DiscardHandler)
	cfg := quarantine.Config{Running: filepath.Join(dir, "running"), Records: quarantine.File(filepath.Join(dir, "suspects"), silent),
		Times: quarantine.Times{Delay: time.Hour, Trial: time.Hour}, Logger: silent,
		Read: func(store.RunKey) (quarantine.Progress, error) { return quarantine.Progress{}, nil }}
	var w *quarantine.Watch
	for range 3 { // two processes that end while the run computes, and this one
		var err error
		if w, _, err = quarantine.Open(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		w.Subject(0, "bad").Begin()
	}
	if !w.Subject(0, "bad").AwaitsTrial() {
		t.Fatal("it is not held")
	}
	for _, waits := range []bool{false, true} {
		runs := &noted{}
		var entrant handler.Entrant
		l := &limiterFunc{enter: func(e handler.Entrant) (handler.Slot, run.Verdict) {
			if entrant = e; !waits {
				return emptySlot{}, run.Begins
			}
			return emptySlot{}, run.Queues
		}}
		r := handler.NewRegistry(handler.Config{Watch: w, Limiter: l, Runs: runs, Lingering: -1})
		r.Handle("crash", nothing)
		place, v := r.Ask(run.Ask{Run: store.RunKey{ID: "bad"}, Workflow: "w", Handle: 1, Handler: "crash"})
		if v != run.Queues || place != nil {
			t.Fatalf("verdict %d", v)
		}
		if waits {
			entrant.Admit(emptySlot{})
		}
		if len(runs.admitted) > 0 {
			t.Errorf("waits for a slot: %v: the held run gets a place outside its trial", waits)
		}
	}
}

// TestQueuedBeforeTheVerdict has a limiter report an attempt as queued before the registry has got its verdict Soon.
func TestQueuedBeforeTheVerdict(t *testing.T) {
	runs, busy := &noted{}, &activity{}
	l := &limiterFunc{enter: func(e handler.Entrant) (handler.Slot, run.Verdict) {
		done := make(chan struct{})
		go func() { e.Queued(); close(done) }() // as limits.attemptEntry.rests does, in its own goroutine
		<-done
		return emptySlot{}, run.Soon
	}}
	r := handler.NewRegistry(handler.Config{Limiter: l, Runs: runs, Lingering: -1, Activity: busy})
	r.Handle("h", nothing)
	a := run.Ask{Run: store.RunKey{ID: "r"}, Workflow: "w", Handle: 1, Handler: "h"}
	_, v := r.Ask(a)
	_, again := r.Ask(a)
	if v != run.Soon || runs.queued != 1 {
		t.Errorf("verdict %d, told %d times", v, runs.queued)
	}
	if busy.n != 0 {
		t.Errorf("the attempt waits and was told so, activity %d", busy.n)
	}
	if again == run.Soon {
		t.Error("when it asks again, it is to be told soon; nobody will")
	}
}
