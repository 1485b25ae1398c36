package quarantine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Record is what is known of a suspect. Records are kept in a file, as JSON.
type Record struct {
	Namespace store.NamespaceID `json:"namespace"`
	ID        string            `json:"id"`
	At        Progress          `json:"at"`
	// Ends is how many processes in a row ended while the run computed, without progress.
	Ends int `json:"ends"`
	// Trials is how many of them ended in a trial of the run.
	Trials int `json:"trials"`
	// UntilMs is where its newest trial ends or ended at the latest, in milliseconds from the start of that process.
	UntilMs int64 `json:"until_ms"`
	Trying  bool  `json:"trying"` // its trial goes on
}

// Progress is how far a run has come.
type Progress struct {
	Incarnation store.Incarnation `json:"incarnation"`
	Iteration   uint32            `json:"iteration"`
	Entries     int               `json:"entries"` // of its journal, those left out that a restart appends
	Over        bool              `json:"-"`       // nothing goes on with the run: it has ended, or is left to a person
}

// Looks returns how far a run has come: store.ErrNotFound if there is none.
type Looks func(store.RunKey) (Progress, error)

// How many ends in a row have a run held, and in how many trials it is convicted. One end is that of everybody who computed; with
// two trials, somebody who stops the host by kill -9, and again because it did not come up at once, would convict a long step.
const (
	endsToHold = 2
	trials     = 3
)

func (r *Record) key() store.RunKey { return store.RunKey{Namespace: r.Namespace, ID: r.ID} }

// held reports whether the run computes only in its trial.
func (r *Record) held() bool { return r.Ends >= endsToHold }

// before reports whether a suspect is tried before another one: who was tried less often is more likely to be innocent.
func (r *Record) before(o *Record) bool {
	return cmp.Or(cmp.Compare(r.UntilMs, o.UntilMs), cmp.Compare(r.Namespace, o.Namespace), cmp.Compare(r.ID, o.ID)) < 0
}

// Reason says why a convicted run is set aside.
func (r *Record) Reason() string {
	return fmt.Sprintf("brought the host down %d times: the process ended %d times in a row while this run computed, %d of them "+
		"while it was tried alone; a retry lets it go on", r.Ends, r.Ends, r.Trials)
}

// judge decides what the end of a process means for those who were suspects before and those who computed then.
func judge(before []Record, marked []store.RunKey, unclean bool, look Looks) ([]Record, error) {
	tried := slices.ContainsFunc(before, func(r Record) bool { return r.Trying })
	computed := map[store.RunKey]bool{}
	for _, run := range marked {
		computed[run] = true
	}
	var after []Record
	known := map[store.RunKey]bool{}
	for _, r := range before {
		run := r.key()
		at, err := look(run)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		same := at == r.At
		was := r.Trying
		r.Trying = false
		switch {
		case at.Over:
			known[run] = true
		case !same: // what it did now is looked at below, as of a new suspect
		case !unclean: // one that is held has not been tried
			if r.held() {
				after = append(after, r)
			}
		case was:
			r.Ends++
			r.Trials++
			after = append(after, r)
		case computed[run]:
			r.Ends++
			after = append(after, r)
		case tried && r.held(): // it was that one, perhaps
			after = append(after, r)
		default: // the process ended without it
			known[run] = true
		}
		known[run] = known[run] || same
	}
	for _, run := range marked {
		if known[run] {
			continue
		}
		known[run] = true
		at, err := look(run)
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

// Look returns the progress of a run as it is in the store.
func Look(st *store.RunState, entries []store.Entry) Progress {
	p := Progress{Incarnation: st.Incarnation, Iteration: st.Iteration,
		Over: st.Deleted || st.Status.Terminal() || st.Status.Attention()}
	for i := range entries {
		if counts(&entries[i]) {
			p.Entries++
		}
	}
	return p
}

// counts reports whether an entry is progress. That an attempt begins again after a restart is none.
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

// Names of the files in the data folder.
const (
	runningName  = "running"
	suspectsName = "suspects.json"
)

// readRecords reads the suspects. A file that cannot be read has none: it is written anew, and a run that brings the host down
// becomes a suspect again.
func readRecords(path string, log *slog.Logger) (records []Record) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, &records)
	}
	if err != nil {
		log.Warn("the suspects of earlier processes cannot be read", "cause", err)
		return nil
	}
	return records
}

// writeRecords replaces the file of suspects. It is there when the process ends; only a machine that loses power may lose it.
func writeRecords(path string, records []Record) error {
	if len(records) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove suspects: %w", err)
		}
		return nil
	}
	slices.SortFunc(records, func(a, b Record) int { return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID)) })
	b, err := json.Marshal(records)
	if err == nil {
		err = os.WriteFile(path+".new", b, fileMode)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("write suspects: %w", err)
	}
	return nil
}
