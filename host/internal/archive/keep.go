package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Whole is all that an archive holds of a run, so that it can be stored.
type Whole struct {
	Run
	// ID names what the archive holds: the move, of a run that was moved and lives; else the state and the journals. Two archives of
	// a run as it was at one point have the same, with the module and without. What is left of a moved run that was terminated where
	// it was is not the run that goes on elsewhere.
	ID      string
	Earlier []store.IterationEnd // the iterations before the newest one, each with its journal
	Logs    []store.LogLine
	Output  []store.Chunk

	bytes, most int64 // of the records that are kept, about, and how many there may be
}

// recordBytes is what a record takes in memory beside its texts, about.
const recordBytes = 320

// ReadWhole is Read for a run that is to be stored: it keeps all records, with at most so many bytes in memory, about. Logs and
// output have no gaps, and all iterations are of one run. Beyond the limit it returns an error that wraps store.ErrTooLarge.
func ReadWhole(r io.Reader, most int64) (*Whole, error) {
	whole := &Whole{most: most}
	in := newReader(r)
	in.keep = whole
	run, err := in.all()
	if err != nil {
		return nil, err
	}
	whole.Run = *run
	if err := whole.check(&in.journal); err != nil {
		return nil, err
	}
	if in.journal.Ended() == store.KindInvalid {
		whole.ID = in.journal.Move()
	}
	if whole.ID == "" {
		h := sha256.New()
		for _, f := range in.files {
			if f.Name == stateName || strings.HasPrefix(f.Name, journalName) {
				_, _ = io.WriteString(h, f.SHA256) // never an error
			}
		}
		whole.ID = hex.EncodeToString(h.Sum(nil))
	}
	return whole, nil
}

// room counts a record that is kept.
func (w *Whole) room(record []byte) error {
	if w == nil {
		return nil
	}
	w.bytes += int64(len(record)) + recordBytes
	if w.bytes > w.most {
		return fmt.Errorf("%w: its journals, log and output take more than %d bytes in memory", store.ErrTooLarge, w.most)
	}
	return nil
}

// iteration keeps the journal of an iteration that has continued as new.
func (w *Whole) iteration(n uint32, j *journal.Journal) {
	if w != nil {
		w.Earlier = append(w.Earlier, store.IterationEnd{Iteration: n, Append: j.All()})
	}
}

func (w *Whole) line(l *store.LogLine) {
	if w != nil {
		w.Logs = append(w.Logs, *l)
	}
}

func (w *Whole) chunk(c *store.Chunk) {
	if w != nil {
		w.Output = append(w.Output, *c)
	}
}

// check compares what is kept with the state. LogLines may be any number: a run that was migrated counts the lines that its new
// code logs where the old one, which made this part of the journal, logged none; those are not stored.
func (w *Whole) check(newest *journal.Journal) error {
	st := &w.State
	switch n, m := uint64(len(w.Logs)), uint64(len(w.Output)); {
	case n != st.LogRecords || m != st.Output || m != newest.Output():
		return invalid("it has %d lines and %d chunks of output, its state says %d and %d, and its journal %d chunks", n, m,
			st.LogRecords, st.Output, newest.Output())
	}
	for i := range w.Logs {
		if w.Logs[i].Index != uint64(i) {
			return invalid("line %d of its log is missing", i)
		}
	}
	for i := range w.Output {
		if w.Output[i].Index != uint64(i) {
			return invalid("chunk %d of its output is missing", i)
		}
	}
	s := newest.Started()
	for i := range w.Earlier {
		var j journal.Journal
		if err := j.Load(w.Earlier[i].Append[0]); err != nil {
			return invalid("iteration %d: %w", i, err)
		}
		if of := j.Started(); of.RunID != s.RunID || of.Workflow != s.Workflow || of.Incarnation != s.Incarnation ||
			of.Iteration != w.Earlier[i].Iteration {
			return invalid("iteration %d is one of run %q of %q, iteration %d, and not of this run", i, of.RunID,
				of.Workflow, of.Iteration)
		}
	}
	return nil
}
