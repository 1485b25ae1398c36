package journal

import (
	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// pending is how many signals were accepted and are bound to no wait, in all and by name.
type pending struct {
	all    load
	byName map[string]load // of those that have any
}

// load is a number of signals, and the bytes of their payloads.
type load struct{ n, bytes int64 }

// add adds the signal of an entry n times; -1 removes it.
func (p *pending) add(e *store.Entry, n int64) {
	bytes := n * int64(len(e.Data))
	p.all.n, p.all.bytes = p.all.n+n, p.all.bytes+bytes
	if p.byName == nil {
		p.byName = map[string]load{}
	}
	of := p.byName[e.Name]
	of.n, of.bytes = of.n+n, of.bytes+bytes
	if p.byName[e.Name] = of; of.n == 0 {
		delete(p.byName, e.Name)
	}
}

const (
	// entriesToReceive is how many entries the workflow needs to receive a signal: its call, and the delivery.
	entriesToReceive = 2
	// bytesToReceive is more than they count: of both, the call alone has the name.
	bytesToReceive = entriesToReceive*entryBytes + abi.MaxNameBytes
)

// room returns an error of abi.Limit if a signal of a name, with a payload of so many bytes, may not be accepted because of those
// that nobody has taken: there are too many, in all or of this name, or the workflow could not receive all of them in what calls
// may use of the journal.
func (p *pending) room(j *Journal, name string, bytes int64) error {
	of := p.byName[name]
	for _, x := range []struct {
		have, limit int64
		what        string
	}{
		{of.bytes + bytes, abi.MaxPendingSignalBytes / abi.PendingNameShare, "bytes of its name"},
		{p.all.bytes + bytes, abi.MaxPendingSignalBytes, "bytes"},
		{of.n + 1, abi.MaxPendingSignals / abi.PendingNameShare, "of its name"},
		{p.all.n + 1, abi.MaxPendingSignals, "in all"},
	} {
		if x.have > x.limit {
			return abi.Errorf(abi.Limit, "with the signal %q there would be %d %s that nobody has taken, the limit is %d", name, x.have,
				x.what, x.limit)
		}
	}
	if need := len(j.entries) + 1 + entriesToReceive*(int(p.all.n)+1); need > callEntries {
		return abi.Errorf(abi.Limit, "the journal would have %d entries when the signal %q and the %d before it are received, calls "+
			"may use %d of %d; the workflow should continue as new", need, name, p.all.n, callEntries, abi.MaxEntries)
	}
	if need := j.bytes + entryBytes + abi.MaxNameBytes + bytes + bytesToReceive*(p.all.n+1); need > callBytes {
		return abi.Errorf(abi.Limit, "the journal would have %d bytes when the signal %q and the %d before it are received, calls "+
			"may use %d of %d; the workflow should continue as new", need, name, p.all.n, callBytes, abi.MaxJournalBytes)
	}
	return nil
}
