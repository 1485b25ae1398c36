package quarantine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Record is what is known of a suspect, saved as JSON.
type Record struct {
	Namespace store.NamespaceID `json:"namespace"`
	ID        string            `json:"id"`
	At        Progress          `json:"at"`
	// Ends is how many processes in a row ended while the run computed, without progress in between.
	Ends int `json:"ends"`
	// Trials is how many of these processes ended in a trial of the run.
	Trials int `json:"trials"`
	// UntilMs is the latest end of its newest trial, in milliseconds from the start of that process.
	UntilMs int64 `json:"until_ms"`
	Trying  bool  `json:"trying"` // its trial is in progress
	// By is the host that tries it; empty if that is no host of a cluster.
	By string `json:"by,omitempty"`
}

// Progress is how far a run has come.
type Progress struct {
	Incarnation store.Incarnation `json:"incarnation"`
	Iteration   uint32            `json:"iteration"`
	Entries     int               `json:"entries"` // of its journal, without the entries that a restart appends
	Over        bool              `json:"-"`       // the run does not compute any more: it has ended, or needs a person
}

// ReadProgress returns the progress of a run, and store.ErrNotFound if there is none.
type ReadProgress func(store.RunKey) (Progress, error)

// endsToTrial is how many ends in a row make a run need a trial, and trials how many ends in trials convict it. After one end,
// every run that computed is a suspect. Two trials are too few: killing the host with kill -9 twice, the second time
// because it did not come up at once, would convict a long step.
const (
	endsToTrial = 2
	trials      = 3
)

func (r *Record) key() store.RunKey { return store.RunKey{Namespace: r.Namespace, ID: r.ID} }

// needsTrial reports whether the run may compute only in its trial.
func (r *Record) needsTrial() bool { return r.Ends >= endsToTrial }

// convicted reports whether the run may not compute any more.
func (r *Record) convicted() bool { return r.Trials >= trials }

// before reports whether r is tried before o. Runs with fewer trials come first: they are more likely to be innocent.
func (r *Record) before(o *Record) bool {
	return cmp.Or(cmp.Compare(r.UntilMs, o.UntilMs), cmp.Compare(r.Namespace, o.Namespace), cmp.Compare(r.ID, o.ID)) < 0
}

// Reason returns why a convicted run is stuck.
func (r *Record) Reason() string {
	return fmt.Sprintf("brought the host down %d times: the process ended %d times in a row while this run computed, %d of them "+
		"while it was tried alone; a retry lets it go on", r.Ends, r.Ends, r.Trials)
}

// judge decides what the end of a process of a host means for earlier suspects and for the runs that computed then. It returns
// the new suspects. host is empty for a host that is alone: the end of its process acquits suspects that did not compute. In a
// cluster they may have been on another host.
func judge(host string, before []Record, marked []store.RunKey, unclean bool, read ReadProgress) ([]Record, error) {
	mine := func(r *Record) bool { return r.Trying && r.By == host }
	tried := slices.ContainsFunc(before, func(r Record) bool { return mine(&r) })
	computed := map[store.RunKey]bool{}
	for _, run := range marked {
		computed[run] = true
	}
	var after []Record
	known := map[store.RunKey]bool{}
	for _, r := range before {
		run := r.key()
		at, err := read(run)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		same := at == r.At
		was := mine(&r)
		if was {
			r.Trying, r.By = false, ""
		}
		keep := false
		switch {
		case at.Over:
			known[run] = true
		case !same: // it made progress: if it computed now, it is judged below as a new suspect
		case !unclean: // a run that needs a trial had none
			keep = r.needsTrial()
		case was:
			r.Ends++
			r.Trials++
			keep = true
		case computed[run]:
			r.Ends++
			keep = true
		case tried && r.needsTrial(): // the run under trial may have ended the process
			keep = true
		default: // the process ended while it did not compute
			known[run] = true
		}
		if keep || same && !at.Over && host != "" {
			after = append(after, r)
		}
		known[run] = known[run] || same
	}
	for _, run := range marked {
		if known[run] {
			continue
		}
		known[run] = true
		at, err := read(run)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return nil, err
		case !at.Over:
			after = append(after, Record{Namespace: run.Namespace, ID: run.ID, At: at, Ends: 1})
		}
	}
	return after, nil
}

// ProgressOf returns the progress of a run from its state and journal.
func ProgressOf(st *store.RunState, entries []store.Entry) Progress {
	p := Progress{Incarnation: st.Incarnation, Iteration: st.Iteration,
		Over: st.Deleted || st.Status.Terminal() || st.Status.Attention()}
	for i := range entries {
		if counts(&entries[i]) {
			p.Entries++
		}
	}
	return p
}

// counts reports whether an entry is progress. An attempt that begins again after a restart is not.
func counts(e *store.Entry) bool {
	return e.Kind != store.KindAttemptStarted || e.Code != journal.StartedByRecovery
}

// advances reports whether a commit is progress of its run, or its end.
func advances(c *store.RunCommit) bool {
	if c.Delete || c.Before != nil || c.State.Status.Terminal() || c.State.Status.Attention() {
		return true
	}
	for i := range c.Append {
		if counts(&c.Append[i]) {
			return true
		}
	}
	return false
}
