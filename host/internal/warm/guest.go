package warm

import (
	"hash/maphash"

	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/calls"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/store"
)

// Guest is a guest that has given its instance up where it waits, with what has answered it. It stands at a place of the
// journal of its run, and is right as long as the journal begins so: if more was appended since, the guest goes on from
// there.
type Guest struct {
	engine.Frozen
	Machine replay.Frozen
	Lines   calls.Lines
	Stdin   []byte // that was not read
	Read    bool   // some of it was
	Passed  Passed
}

// Bytes returns what the guest takes, about.
func (g *Guest) Bytes() int64 {
	return g.Frozen.Bytes() + g.Machine.Bytes() + g.Lines.Held() + int64(cap(g.Stdin))
}

// Passed is what a guest has seen of its journal.
type Passed struct {
	entries int
	digest  uint64 // of how the run began, and of the entries
}

// The constants of FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv), which is fed with numbers in place of bytes where there
// are numbers.
const (
	digestBasis = 14695981039346656037
	digestPrime = 1099511628211
)

func (p *Passed) add(numbers ...uint64) {
	for _, n := range numbers {
		p.digest = (p.digest ^ n) * digestPrime
	}
}

func (p *Passed) text(texts ...string) {
	for _, s := range texts {
		p.add(uint64(len(s)))
		for i := range len(s) {
			p.add(uint64(s[i]))
		}
	}
}

// NewPassed is what a guest has seen that begins, of an iteration and attempt of a run.
func NewPassed(s *journal.Started) Passed {
	p := Passed{digest: digestBasis}
	p.text(s.RunID, s.Incarnation, s.Module, string(s.Seed))
	p.add(uint64(s.Iteration), uint64(s.RunAttempt), uint64(s.Version))
	return p
}

// ofData is the seed of the digests of what entries hold.
var ofData = maphash.MakeSeed()

// See adds the entries that are new in a journal. What is told apart is what never changes of an entry, and what it holds: a
// commit that fails may leave another signal in the place of one that the guest has seen, at the same time.
func (p *Passed) See(entries []store.Entry) {
	for i := range entries[p.entries:] {
		e := &entries[p.entries+i]
		p.add(uint64(e.Seq), uint64(e.Kind), uint64(e.Handle), uint64(e.UnixMs), uint64(e.Code), maphash.Bytes(ofData, e.Data))
	}
	p.entries = len(entries)
}

// Begins reports whether a journal begins so: with the same iteration and attempt of the run, and the same entries.
func (p *Passed) Begins(started *journal.Started, entries []store.Entry) bool {
	if len(entries) < p.entries {
		return false
	}
	now := NewPassed(started)
	now.See(entries[:p.entries])
	return now == *p
}
