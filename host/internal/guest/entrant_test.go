package guest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/host/internal/admission"
	"github.com/wfhost/wfhost/store"
)

const mib = 1 << 20

// door is the admission at which the guests of a test wait.
type door struct {
	places   *admission.Admission
	journals *admission.Journals
	drains   atomic.Bool
}

func newDoor(places int) *door {
	return &door{places: admission.New(places, 1<<40, 0), journals: admission.NewJournals(mib, nil)}
}

// visitor is a guest and its outcome.
type visitor struct {
	entrant
	run            store.RunKey
	begun, refused atomic.Int64
	cancel         context.CancelFunc
}

// visitor makes a guest of a run with a journal of the given size. begin is called when it is let in.
func (d *door) visitor(ctx context.Context, i int, bytes int64, begin func(v *visitor)) *visitor {
	v := &visitor{run: store.RunKey{ID: fmt.Sprint("run-", i)}}
	share := d.journals.Share(admission.JournalGroup{Workflow: "w"}, v.run, bytes)
	v.Places, v.Share, v.Draining = d.places, &share, d.drains.Load
	v.Ends, v.cancel = context.WithCancel(ctx)
	v.Request = &admission.Request{Place: d.places.NewPlace(1), Class: admission.Woken, Begin: func() {
		v.begun.Add(1)
		begin(v)
	}, Refuse: func() { v.refused.Add(1) }}
	return v
}

func nothing(*visitor) {}

// A guest that has given up an instance waits for journal room first, and then for a place; others ask for a place at
// once.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(1)
		full := d.visitor(t.Context(), 0, 2*mib, nothing)
		first := d.visitor(t.Context(), 1, mib, nothing) // the first run continues in any case
		first.Ask(true)
		if first.begun.Load() != 1 {
			t.Error("the one that goes on in any case waits")
		}
		grows, place := d.visitor(t.Context(), 2, mib, nothing), d.visitor(t.Context(), 3, 0, nothing)
		grows.Ask(true)
		place.Ask(false)
		if grows.begun.Load()+place.begun.Load() != 0 || d.journals.Waiting() != 1 {
			t.Errorf("%d and %d have begun, %d wait for room", grows.begun.Load(), place.begun.Load(), d.journals.Waiting())
		}
		d.journals.Forget(full.run)
		d.journals.Forget(first.run)
		if grows.begun.Load() != 0 || d.journals.Waiting() != 0 {
			t.Error("it does not wait for a place when there is room")
		}
		first.Request.Place.Leave()
		place.Request.Place.Leave()
		synctest.Wait()
		if grows.begun.Load() != 1 || place.begun.Load() != 1 {
			t.Errorf("%d and %d have begun", grows.begun.Load(), place.begun.Load())
		}
	})
}

// A guest that was let in is barred while its journal may not grow, and is let in once more when it may; after that
// it is not barred.
func TestBarred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(4)
		first := d.visitor(t.Context(), 0, 2*mib, nothing) // far over the limit
		first.Ask(true)
		v := d.visitor(t.Context(), 1, 0, nothing)
		v.Ask(false)
		if v.begun.Load() != 1 || !v.Barred(true) {
			t.Fatal("a start that would make journals longer is not barred")
		}
		if instances, _, _ := d.places.Usage(); instances != 1 {
			t.Errorf("%d have places, want the first", instances)
		}
		d.journals.Forget(first.run)
		synctest.Wait()
		if v.begun.Load() != 2 || v.Barred(true) {
			t.Error("it is not let in when there is room")
		}
	})
}

// A guest that waits for room is refused once: by Withdraw, by the end of its activation, or by a host that drains.
func TestWithdraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, end := range map[string]func(d *door, v *visitor){
			"withdraw":             func(_ *door, v *visitor) { v.Ask(true); v.Withdraw(); v.Withdraw() },
			"before":               func(_ *door, v *visitor) { v.cancel(); v.Ask(true); v.Withdraw() },
			"drained":              func(d *door, v *visitor) { v.Ask(true); d.drains.Store(true); d.journals.RefuseAll() },
			"drained before":       func(d *door, v *visitor) { d.drains.Store(true); v.Ask(true) },
			"drained, for a place": func(d *door, v *visitor) { d.drains.Store(true); v.Ask(false); v.Withdraw() },
		} {
			d := newDoor(1)
			d.visitor(t.Context(), 0, 2*mib, nothing).Ask(true)
			v := d.visitor(t.Context(), 1, mib, nothing)
			end(d, v)
			if v.begun.Load() != 0 || v.refused.Load() != 1 || d.journals.Waiting() != 0 {
				t.Errorf("%s: begun %d times, refused %d, %d wait", name, v.begun.Load(), v.refused.Load(), d.journals.Waiting())
			}
			v.cancel()
		}
	})
}

// Many guests ask, grow, are barred, leave and are withdrawn concurrently: each begins or is refused in the end, and
// none keeps waiting.
func TestCrowd(t *testing.T) {
	const guests = 400
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(3)
		var inside sync.WaitGroup
		var all []*visitor
		var ended [guests]atomic.Int64
		for i := range guests {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			stays, starts, barring := time.Duration(r.IntN(50))*time.Millisecond, r.IntN(2) == 0, r.IntN(3) > 0
			v := d.visitor(t.Context(), i, int64(r.IntN(mib/8)), func(v *visitor) {
				inside.Go(func() {
					if barring && v.Barred(starts) {
						return
					}
					<-time.NewTimer(stays).C // of the bubble's clock
					v.Request.Place.Leave()
					d.journals.Forget(v.run)
					ended[i].Add(1)
				})
			})
			all = append(all, v)
		}
		for i, v := range all {
			r := rand.New(rand.NewPCG(2, uint64(i)))
			grows, gives, after := r.IntN(2) == 0, r.IntN(4) == 0, time.Duration(r.IntN(100))*time.Millisecond
			go func() {
				v.Ask(grows)
				if gives {
					<-time.NewTimer(after).C
					v.cancel()
					v.Withdraw()
					d.journals.Forget(v.run)
				}
			}()
		}
		<-time.NewTimer(time.Hour).C
		for i, v := range all {
			if n := ended[i].Load() + v.refused.Load(); n != 1 {
				t.Errorf("guest %d has ended %d times, and was refused %d times", i, ended[i].Load(), v.refused.Load())
			}
			v.cancel()
		}
		if _, waiting, _ := d.places.Usage(); waiting+d.journals.Waiting() != 0 || d.journals.Bytes() != 0 {
			t.Errorf("%d wait for a place, %d for room; %d bytes are held", waiting, d.journals.Waiting(), d.journals.Bytes())
		}
		inside.Wait()
	})
}
