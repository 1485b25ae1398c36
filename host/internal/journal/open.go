package journal

import (
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/timers"
	"github.com/wfhost/wfhost/store"
)

// open is the handles that are open, in call order. Each event asks for some of them, so these have lists of their own: a run may
// have thousands of the others. A list is sorted, and a change of it moves eight bytes for each later one.
type open struct {
	all     []int64
	steps   []int64 // and bodies
	updates []int64 // waits for updates
	sleeps  []int64
	rest    []int64           // all others
	retries timers.Few[int64] // of the steps with a delay before their next attempt
}

// listOf returns the list in which a handle stands beside all.
func (o *open) listOf(h *Handle) *[]int64 {
	switch {
	case h.Step != nil:
		return &o.steps
	case h.Kind == store.KindSleep:
		return &o.sleeps
	case strings.HasPrefix(h.Name, abi.UpdatePrefix):
		return &o.updates
	}
	return &o.rest
}

// add adds the newest handle.
func (o *open) add(h *Handle) {
	o.all = append(o.all, h.ID)
	list := o.listOf(h)
	*list = append(*list, h.ID)
}

// remove removes a handle. It is not there if it is closed again.
func (o *open) remove(h *Handle) {
	o.all = remove(o.all, h.ID)
	list := o.listOf(h)
	*list = remove(*list, h.ID)
	o.retries.Remove(h.ID)
}

// delayed notes the delay of a step's next attempt, or that it has none.
func (o *open) delayed(h *Handle) {
	o.retries.Remove(h.ID)
	if s := h.Step; s.RetryMs != 0 && !s.InFlight && h.Open() {
		o.retries.Put(h.ID, s.RetryMs)
	}
}

// Steps calls yield for each open step in call order. Those that yield resolves are not skipped over.
func (j *Journal) Steps(yield func(*Handle) bool) { j.each(j.open.steps, yield) }

// OpenSteps returns the number of open steps.
func (j *Journal) OpenSteps() int { return len(j.open.steps) }

// Delayed returns how many open steps wait for their next attempt, if that is later than an instant for all of them; else it
// reports false.
func (j *Journal) Delayed(afterUnixMs int64) (n int, all bool) {
	_, due, has := j.open.retries.First()
	return j.open.retries.Len(), !has || due > afterUnixMs
}

// DueSteps returns the open steps whose delay has passed by an instant, in call order, and the number of those whose delay has
// not. If more than most have come due, it returns none of them and reports false.
func (j *Journal) DueSteps(byUnixMs int64, most int) (ids []int64, later int, few bool) {
	retries := &j.open.retries
	var dues []int64
	for {
		id, due, has := retries.First()
		if !has || due > byUnixMs || len(ids) > most {
			break
		}
		retries.Remove(id)
		ids, dues = append(ids, id), append(dues, due)
	}
	later = retries.Len()
	for i, id := range ids {
		retries.Put(id, dues[i])
	}
	if len(ids) > most {
		return nil, 0, false
	}
	slices.Sort(ids)
	return ids, later, true
}

// StepsAfter returns the open steps that were called after a handle, in call order.
func (j *Journal) StepsAfter(handle int64) []int64 {
	at, _ := slices.BinarySearch(j.open.steps, handle+1)
	return slices.Clip(j.open.steps[at:])
}

// Sleeps calls yield for each open sleep in call order. Those that yield resolves are not skipped over.
func (j *Journal) Sleeps(yield func(*Handle) bool) { j.each(j.open.sleeps, yield) }

// Newest returns the newest open handle that is no sleep, and no wait for an update unless there is nothing else; nil if there is
// none.
func (j *Journal) Newest() *Handle {
	newest := int64(0)
	for _, list := range [][]int64{j.open.steps, j.open.rest} {
		if len(list) > 0 {
			newest = max(newest, list[len(list)-1])
		}
	}
	if newest == 0 && len(j.open.updates) > 0 {
		newest = j.open.updates[len(j.open.updates)-1]
	}
	return j.Handle(newest)
}

func (j *Journal) each(ids []int64, yield func(*Handle) bool) {
	var few [8]int64 // of most runs, no more are open
	for _, id := range append(few[:0], ids...) {
		if h := j.Handle(id); h.Open() && !yield(h) {
			return
		}
	}
}

// retry returns the earliest instant after another at which a step's next attempt may begin.
func (j *Journal) retry(afterUnixMs int64) (unixMs int64, ok bool) {
	if _, due, has := j.open.retries.First(); !has || due > afterUnixMs {
		return due, has
	}
	for _, id := range j.open.steps { // some have come due, and wait for something else
		s := j.Handle(id).Step
		if !s.InFlight && s.RetryMs > afterUnixMs && (!ok || s.RetryMs < unixMs) {
			unixMs, ok = s.RetryMs, true
		}
	}
	return unixMs, ok
}
