package journal

import (
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/timers"
	"github.com/wfhost/wfhost/store"
)

// open indexes the open handles in call order. Each event needs handles of one kind, and a run may have thousands of other
// kinds, so there is one list per kind. Lists are sorted slices: a change moves eight bytes for each later handle.
type open struct {
	all     []int64
	steps   []int64 // steps and bodies
	updates []int64 // waits for updates
	sleeps  []int64
	rest    []int64           // all other kinds
	retries timers.Few[int64] // steps whose next attempt is delayed, by its instant
}

// listOf returns the list for the handle's kind.
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

// add appends the newest handle.
func (o *open) add(h *Handle) {
	o.all = append(o.all, h.ID)
	list := o.listOf(h)
	*list = append(*list, h.ID)
}

// remove removes a handle. Removing it twice is harmless: a withdrawal may close a handle that was resolved.
func (o *open) remove(h *Handle) {
	o.all = remove(o.all, h.ID)
	list := o.listOf(h)
	*list = remove(*list, h.ID)
	o.retries.Remove(h.ID)
}

// delayed updates the delay of a step's next attempt in retries.
func (o *open) delayed(h *Handle) {
	o.retries.Remove(h.ID)
	if s := h.Step; s.RetryMs != 0 && !s.InFlight && h.Open() {
		o.retries.Put(h.ID, s.RetryMs)
	}
}

// Steps calls yield for each open step in call order. yield may resolve steps; no other step is missed.
func (j *Journal) Steps(yield func(*Handle) bool) { j.each(j.open.steps, yield) }

// OpenSteps returns the number of open steps.
func (j *Journal) OpenSteps() int { return len(j.open.steps) }

// Delayed returns the number of open steps whose next attempt is delayed. all reports whether all of these attempts are due
// later than the given instant.
func (j *Journal) Delayed(afterUnixMs int64) (n int, all bool) {
	_, due, has := j.open.retries.First()
	return j.open.retries.Len(), !has || due > afterUnixMs
}

// DueSteps returns the open steps whose delay has passed at the given instant, in call order, and how many steps are still
// delayed. If more than most steps are due, it returns no steps and few is false.
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

// StepsAfter returns the open steps with a higher handle, in call order.
func (j *Journal) StepsAfter(handle int64) []int64 {
	at, _ := slices.BinarySearch(j.open.steps, handle+1)
	return slices.Clip(j.open.steps[at:])
}

// Sleeps calls yield for each open sleep in call order. yield may resolve sleeps; no other sleep is missed.
func (j *Journal) Sleeps(yield func(*Handle) bool) { j.each(j.open.sleeps, yield) }

// Newest returns the newest open handle that is neither a sleep nor a wait for an update. If there is none, it returns the
// newest wait for an update, else nil.
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
	var few [8]int64 // most runs have at most eight open handles
	for _, id := range append(few[:0], ids...) {
		if h := j.Handle(id); h.Open() && !yield(h) {
			return
		}
	}
}

// retry returns the earliest instant after the given one at which a step's next attempt may begin.
func (j *Journal) retry(afterUnixMs int64) (unixMs int64, ok bool) {
	if _, due, has := j.open.retries.First(); !has || due > afterUnixMs {
		return due, has
	}
	for _, id := range j.open.steps { // some steps are due, but wait for another reason
		s := j.Handle(id).Step
		if !s.InFlight && s.RetryMs > afterUnixMs && (!ok || s.RetryMs < unixMs) {
			unixMs, ok = s.RetryMs, true
		}
	}
	return unixMs, ok
}
