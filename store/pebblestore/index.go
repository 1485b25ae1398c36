package pebblestore

import (
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// listed returns the status whose list has a run. A run that sleeps or waits stays in that list while it is busy, so
// that going to work and back to rest writes one small key each, in the list of busy runs. Readers of the list check
// the state.
func listed(old *record, now *store.RunState) store.Status {
	if !now.Status.Busy() {
		return now.Status
	}
	if old == nil || old.state.Deleted || old.listed != store.Sleeping && old.listed != store.Waiting {
		return 0
	}
	return old.listed
}

// setIndexes removes a run's list entries of record old and adds the entries of record now. nil means no run. Most
// commits do not change them.
func setIndexes(b *pebble.Batch, run store.RunKey, old, now *record) {
	if old != nil && old.state.Deleted {
		old = nil
	}
	if old != nil && now != nil && old.state.CreatedUnixMs != now.state.CreatedUnixMs { // its positions change
		setIndexes(b, run, old, nil)
		old = nil
	}
	i := index{b: b, run: run, p: run.Partition()}
	if now != nil {
		i.at = store.Position{UnixMs: now.state.CreatedUnixMs, ID: run.ID}
	} else if old != nil {
		i.at = store.Position{UnixMs: old.state.CreatedUnixMs, ID: run.ID}
	}
	switch {
	case old == nil && now != nil:
		i.set(store.AppendPrefix(nil, run.Namespace, i.p, store.TableRuns))
	case old != nil && now == nil:
		i.drop(store.AppendPrefix(nil, run.Namespace, i.p, store.TableRuns))
	}
	i.status(old, now)
	i.busy(old, now)
	i.workflow(old, now)
	i.attributes(old, now)
}

// index changes the list entries of one run.
type index struct {
	b   *pebble.Batch
	run store.RunKey
	p   store.PartitionID
	at  store.Position
}

func (i *index) set(list []byte)  { _ = i.b.Set(store.AppendPosition(list, i.at), nil, nil) }
func (i *index) drop(list []byte) { _ = i.b.Delete(store.AppendPosition(list, i.at), nil) }

// status moves the run between the lists of statuses, and in and out of the table of ended runs.
func (i *index) status(old, now *record) {
	var was, is store.Status
	var wasEnded, isEnded int64
	if old != nil {
		was, wasEnded = old.listed, old.state.RetainedUnixMs()
	}
	if now != nil {
		is, isEnded = now.listed, now.state.RetainedUnixMs()
	}
	if was != is {
		if was != 0 {
			i.drop(store.StatusTable(i.run.Namespace, i.p, was))
		}
		if is != 0 {
			i.set(store.StatusTable(i.run.Namespace, i.p, is))
		}
	}
	if !was.Terminal() && !is.Terminal() || was.Terminal() && is.Terminal() && wasEnded == isEnded {
		return
	}
	if was.Terminal() {
		_ = i.b.Delete(store.EndedKey(i.run, wasEnded), nil)
	}
	if is.Terminal() {
		_ = i.b.Set(store.EndedKey(i.run, isEnded), nil, nil)
	}
}

// busyRun returns a run's record for the list of busy runs, false if the run is not busy.
func busyRun(r *record) (store.BusyRun, bool) {
	if r == nil || !r.state.Status.Busy() {
		return store.BusyRun{}, false
	}
	return store.BusyRun{Status: r.state.Status, Listed: r.listed, Version: r.state.Version, Workflow: r.state.Workflow}, true
}

func (i *index) busy(old, now *record) {
	was, had := busyRun(old)
	is, has := busyRun(now)
	switch {
	case has && was != is:
		key := store.AppendPosition(store.BusyTable(i.p, i.run.Namespace), i.at)
		_ = i.b.Set(key, store.AppendBusy(nil, &is), nil)
	case had && !has:
		i.drop(store.BusyTable(i.p, i.run.Namespace))
	}
}

func (i *index) workflow(old, now *record) {
	if old != nil && now != nil && old.state.Workflow == now.state.Workflow {
		return
	}
	if old != nil {
		i.drop(store.WorkflowTable(i.run.Namespace, i.p, old.state.Workflow))
	}
	if now != nil {
		i.set(store.WorkflowTable(i.run.Namespace, i.p, now.state.Workflow))
	}
}

func (i *index) attributes(old, now *record) {
	var was, is []store.Attribute
	if old != nil {
		was = old.state.Attributes
	}
	if now != nil {
		is = now.state.Attributes
	}
	if slices.Equal(was, is) {
		return
	}
	for _, a := range was {
		if !slices.Contains(is, a) {
			i.drop(store.AttributeTable(i.run.Namespace, i.p, a))
		}
	}
	for _, a := range is {
		if !slices.Contains(was, a) {
			i.set(store.AttributeTable(i.run.Namespace, i.p, a))
		}
	}
}
