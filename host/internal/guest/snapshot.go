package guest

import (
	"hash/maphash"
	"reflect"

	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/calls"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/store"
)

// snapshot is a guest that gave up its instance where it waits, with the state of its machine. It is at a position in
// the journal of its run, and valid while the journal begins with the same entries: the guest continues with the
// entries appended since.
type snapshot struct {
	engine.Frozen
	Machine replay.Frozen
	Lines   calls.Lines
	Stdin   []byte // unread input
	Read    bool   // it has begun to read
	Passed  passedEntries
}

// snapshotBytes is the size of a snapshot without what it refers to.
var snapshotBytes = int64(reflect.TypeFor[snapshot]().Size())

// Bytes estimates the size of the guest.
func (g *snapshot) Bytes() int64 {
	return snapshotBytes + g.Frozen.Bytes() + g.Machine.Bytes() + g.Lines.Bytes() + int64(cap(g.Stdin))
}

// passedEntries identifies the part of its journal that a guest has seen.
type passedEntries struct {
	entries int
	digest  uint64 // of the run's beginning and of the entries
}

// Constants of FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv), which is applied to whole numbers instead of
// bytes.
const (
	digestBasis = 14695981039346656037
	digestPrime = 1099511628211
)

func (p *passedEntries) add(numbers ...uint64) {
	for _, n := range numbers {
		p.digest = (p.digest ^ n) * digestPrime
	}
}

func (p *passedEntries) text(texts ...string) {
	for _, s := range texts {
		p.add(uint64(len(s)))
		for i := range len(s) {
			p.add(uint64(s[i]))
		}
	}
}

// newPassed returns the passedEntries of a guest that begins an iteration and attempt of a run.
func newPassed(s *journal.Started) passedEntries {
	p := passedEntries{digest: digestBasis}
	p.text(s.RunID, s.Incarnation, s.Module, string(s.Seed))
	p.add(uint64(s.Iteration), uint64(s.RunAttempt), uint64(s.Version))
	return p
}

// ofData is the seed for hashes of the entries' data.
var ofData = maphash.MakeSeed()

// See adds the new entries of a journal. The digest covers the fields of an entry that never change, and its data: a
// failed commit may replace a signal that the guest has seen by another one with the same time.
func (p *passedEntries) See(entries []store.Entry) {
	for i := range entries[p.entries:] {
		e := &entries[p.entries+i]
		p.add(uint64(e.Seq), uint64(e.Kind), uint64(e.Handle), uint64(e.UnixMs), uint64(e.Code), maphash.Bytes(ofData, e.Data))
	}
	p.entries = len(entries)
}

// Begins reports whether a journal begins like this one: with the same iteration and attempt of the run, and the same
// entries.
func (p *passedEntries) Begins(started *journal.Started, entries []store.Entry) bool {
	if len(entries) < p.entries {
		return false
	}
	now := newPassed(started)
	now.See(entries[:p.entries])
	return now == *p
}
