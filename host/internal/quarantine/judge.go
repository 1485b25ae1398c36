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

// Record is what is known of a suspect. The records are saved in a file, as JSON.
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

// before reports whether r is tried before o. Runs with fewer trials come first: they are more likely to be innocent.
func (r *Record) before(o *Record) bool {
	return cmp.Or(cmp.Compare(r.UntilMs, o.UntilMs), cmp.Compare(r.Namespace, o.Namespace), cmp.Compare(r.ID, o.ID)) < 0
}

// Reason returns why a convicted run is stuck.
func (r *Record) Reason() string {
	return fmt.Sprintf("brought the host down %d times: the process ended %d times in a row while this run computed, %d of them "+
		"while it was tried alone; a retry lets it go on", r.Ends, r.Ends, r.Trials)
}

// judge decides what the end of a process means for earlier suspects and for the runs that computed then. It returns
// the new suspects.
func judge(before []Record, marked []store.RunKey, unclean bool, read ReadProgress) ([]Record, error) {
	tried := slices.ContainsFunc(before, func(r Record) bool { return r.Trying })
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
		was := r.Trying
		r.Trying = false
		switch {
		case at.Over:
			known[run] = true
		case !same: // it made progress: if it computed now, it is judged below as a new suspect
		case !unclean: // a run that needs a trial had none
			if r.needsTrial() {
				after = append(after, r)
			}
		case was:
			r.Ends++
			r.Trials++
			after = append(after, r)
		case computed[run]:
			r.Ends++
			after = append(after, r)
		case tried && r.needsTrial(): // the run under trial may have ended the process
			after = append(after, r)
		default: // the process ended while it did not compute
			known[run] = true
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

// Names of the files in the data folder.
const (
	runningName  = "running"
	suspectsName = "suspects.json"
)

// readRecords reads the suspects. It returns none if the file is unreadable: the file is then replaced, and a run that
// brings the host down becomes a suspect again.
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

// writeRecords replaces the file of suspects. The file is not synced: it survives the end of the process, but perhaps
// not a power cut.
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
