package run

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Import is a run that another installation exported, as it begins here.
type Import struct {
	ID      string               // identifies the import, to recognize a repeated one
	UnixMs  int64                // when it was imported
	Copy    bool                 // it is for inspection only and never continues
	Paused  bool                 // it begins here paused
	Rested  store.Seq            // entries of the newest iteration when its guest last began to wait, 0 if unknown
	Stuck   string               // why it was stuck; empty if it was not
	Earlier []store.IterationEnd // journals of the earlier iterations, in order
	Entries []store.Entry        // of the newest iteration
	Logs    []store.LogLine
	Output  []store.Chunk
	// LogLines is the number of Logs from workflow code of the newest iteration: see store.RunState.
	LogLines uint64
	// Kept is the first iteration whose whole journal was imported. StartedAt is when the run first began, for a run
	// whose iteration 0 was not imported.
	Kept      uint32
	StartedAt int64

	read *journal.Journal // of Entries
}

// Read reads the journal of Entries. A journal may be long, so the importer calls Read before it hands the run to its
// writer. Each Read allows one call of Journal.
func (i *Import) Read() (*journal.Journal, error) {
	i.read = &journal.Journal{}
	for _, e := range i.Entries {
		if err := i.read.Load(e); err != nil {
			return nil, err
		}
	}
	return i.read, nil
}

// Incarnation returns the incarnation of the run. Call it after Read and before Journal.
func (i *Import) Incarnation() string { return i.read.Started().Incarnation }

// Journal returns the journal of the run as it begins here. A run that is live and no copy gets an additional
// entry, which says that it continues here.
func (i *Import) Journal(now int64) (*journal.Journal, error) {
	if len(i.Entries) == 0 { // the import was only a question whether the run exists
		return nil, abi.Errorf(abi.Conflict, "what was there of the run has changed meanwhile: try again")
	}
	if i.read == nil {
		if _, err := i.Read(); err != nil {
			return nil, err
		}
	}
	j := i.read
	i.read = nil
	switch {
	case i.Copy:
		j.Freeze()
		return j, nil
	case j.Ended() != store.KindInvalid:
		return j, nil
	}
	if _, err := j.Append(store.Entry{Kind: store.KindAdopted, Target: j.Move()}, now); err != nil {
		return nil, err
	}
	if i.Paused && !j.Paused() && j.Ended() == store.KindInvalid {
		if _, err := j.Append(store.Entry{Kind: store.KindPaused}, now); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// First returns entry 0 of the run's first iteration.
func (i *Import) First() *store.Entry {
	if len(i.Earlier) > 0 {
		return &i.Earlier[0].Append[0]
	}
	return &i.Entries[0]
}

// StartedMs returns when the first activation of the first iteration began, or 0 if it has not begun.
func (i *Import) StartedMs() int64 {
	if i.Kept > 0 {
		return i.StartedAt
	}
	first := i.Entries
	if len(i.Earlier) > 0 {
		first = i.Earlier[0].Append
	}
	for n := range first {
		if first[n].Kind == store.KindActivated {
			return first[n].UnixMs
		}
	}
	return 0
}

// ParseIncarnation parses the text of an incarnation.
func ParseIncarnation(text string) (i store.Incarnation, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(i) {
		return i, fmt.Errorf("an incarnation is %d hexadecimal digits, got %.40q", 2*len(i), text)
	}
	copy(i[:], b)
	return i, nil
}

// InTheWay returns an *abi.Error of abi.Conflict that names a call which keeps the run from moving to another
// installation, or nil. Answers of other runs to such a call would not reach the run there.
func InTheWay(j *journal.Journal) error {
	for h := range j.Handles {
		switch {
		case h.Kind == store.KindChild:
			return abi.Errorf(abi.Conflict, "run %q waits for its child %q, whose end it would not be told elsewhere: wait until the "+
				"child has ended", j.Started().RunID, h.ChildID)
		case h.Kind == store.KindSignalSend:
			return abi.Errorf(abi.Conflict, "run %q waits until its signal %q has reached run %q: try again in a moment",
				j.Started().RunID, h.Name, h.Target)
		case h.Kind == store.KindHook:
			return abi.Errorf(abi.Conflict, "run %q waits for the token of its hook %q: try again in a moment", j.Started().RunID, h.Name)
		}
	}
	return nil
}

// CheckImported validates entry 0 of a run from elsewhere. A host wrote the entry there, and no replay compares it.
func CheckImported(j *journal.Journal) error {
	s := j.Started()
	if err := errors.Join(abi.CheckRunID(s.RunID), abi.CheckWorkflow(s.Workflow)); err != nil {
		return err
	}
	if _, err := ParseIncarnation(s.Incarnation); err != nil {
		return err
	}
	if _, err := hex.DecodeString(s.ChildSalt); err != nil || len(s.ChildSalt) > childSaltBytes || len(s.Seed) != seedBytes {
		return fmt.Errorf("a seed of %d bytes, want %d, or a wrong salt of ids of children: %.40q", len(s.Seed), seedBytes, s.ChildSalt)
	}
	if s.Schedule != "" {
		if err := abi.CheckRunID(s.Schedule); err != nil {
			return fmt.Errorf("its schedule: %w", err)
		}
	}
	if p := s.Parent; p != nil {
		if err := abi.CheckRunID(p.RunID); err != nil || len(p.Incarnation) != len(store.Incarnation{}) || p.Depth < 1 ||
			p.Depth > abi.MaxChildDepth {
			return fmt.Errorf("its parent is run %.140q, with an incarnation of %d bytes, at depth %d", p.RunID, len(p.Incarnation),
				p.Depth)
		}
	}
	if n := len(j.Attributes()); n > abi.MaxAttributes {
		return fmt.Errorf("%d attributes, the limit is %d", n, abi.MaxAttributes)
	}
	for _, a := range j.Attributes() {
		if err := abi.CheckAttribute(a.Key, a.Value); err != nil {
			return err
		}
	}
	if len(s.Memo) > 0 {
		if _, err := abi.CheckMemo(s.Memo); err != nil {
			return err
		}
	}
	if n := max(s.Output, j.Output()); n > math.MaxInt32 {
		return fmt.Errorf("%d chunks of output, the limit is %d", n, math.MaxInt32)
	}
	for _, h := range j.Hooks() {
		if err := abi.CheckToken(h.Token); h.Target != "" && (err != nil || h.Token != h.Target) {
			return fmt.Errorf("the token of hook %.80q: %w", h.Name, errors.Join(err, errToken))
		}
	}
	return nil
}

var errToken = errors.New("it must be the one that was chosen")
