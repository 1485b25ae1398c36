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

// Whole is the whole content of an archive, so that the run can be stored.
type Whole struct {
	Run
	// ID identifies the content. For a run that was moved and is alive, it is the id of the move; otherwise a hash of the
	// state and the journals. Two archives of a run at the same point have the same ID, with the module and without. If a
	// moved run was terminated where it was, its archive has another ID than the run that continues elsewhere.
	ID      string
	Earlier []store.IterationEnd // the iterations before the newest one, each with its journal
	Logs    []store.LogLine
	Output  []store.Chunk

	bytes, most int64 // estimated memory of the records so far, and its limit
}

// recordBytes is the estimated memory of a record besides its texts.
const recordBytes = 320

// ReadWhole is like Read, but keeps all records, so that the run can be stored. It also checks that logs and output
// have no gaps, and that all iterations belong to one run. If the records would take more than about most bytes of
// memory, the error wraps store.ErrTooLarge.
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
				_, _ = io.WriteString(h, f.SHA256) // never fails
			}
		}
		whole.ID = hex.EncodeToString(h.Sum(nil))
	}
	return whole, nil
}

// count counts the memory of a record, and fails beyond the limit.
func (w *Whole) count(record []byte) error {
	if w == nil {
		return nil
	}
	w.bytes += int64(len(record)) + recordBytes
	if w.bytes > w.most {
		return fmt.Errorf("%w: its journals, log and output take more than %d bytes in memory", store.ErrTooLarge, w.most)
	}
	return nil
}

// iteration keeps the journal of an iteration before the newest one.
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

// check compares the records with the state. It does not check LogLines, which may be any number: a migrated run also
// counts lines that its new code logs in the part of the journal that the old code made without logging them; those
// lines are not stored.
func (w *Whole) check(newest *journal.Journal) error {
	st := &w.State
	if n := uint64(len(w.Logs)); n != st.LogRecords || newest.Output() != st.Output {
		return invalid("it has %d lines, its state says %d; its state says %d chunks of output, and its journal %d", n,
			st.LogRecords, st.Output, newest.Output())
	}
	for i := range w.Logs {
		if w.Logs[i].Index != uint64(i) {
			return invalid("line %d of its log is missing", i)
		}
	}
	if err := w.checkOutput(newest); err != nil {
		return err
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

// checkOutput checks that no chunk of the output is missing. A run that repeats another one has gaps for the chunks of iterations
// before its first, and for chunks that a retry of the other run voided.
func (w *Whole) checkOutput(newest *journal.Journal) error {
	there := make(map[uint64]bool, len(w.Output))
	for i := range w.Output {
		there[w.Output[i].Index] = true
	}
	if newest.Started().RunAttempt <= 1 {
		for i := range w.State.Output {
			if !there[i] {
				return invalid("chunk %d of its output is missing", i)
			}
		}
	}
	check := func(entries []store.Entry) error {
		for i := range entries {
			if e := &entries[i]; e.Kind == store.KindEmit && e.Refused == 0 && !there[uint64(e.Code)] {
				return invalid("chunk %d of its output is missing, and entry %d of its journal emits it", e.Code, e.Seq)
			}
		}
		return nil
	}
	for i := range w.Earlier {
		if err := check(w.Earlier[i].Append); err != nil {
			return err
		}
	}
	return check(newest.All())
}
