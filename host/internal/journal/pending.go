package journal

import (
	"github.com/wfhost/wfhost/abi"
)

const (
	// entriesToReceive is how many entries the workflow needs to receive a signal: its call, and the delivery.
	entriesToReceive = 2
	// bytesToReceive is more than they count: of both, the call alone has the name.
	bytesToReceive = entriesToReceive*entryBytes + abi.MaxNameBytes
)

// room returns an error of abi.Limit if a signal of a name, with a payload of so many bytes, may not be accepted because of those
// that nobody has taken: there are too many, in all or of this name, or the workflow could not receive all of them in what calls
// may use of the journal.
func (w *waits) room(j *Journal, name string, bytes int64) error {
	of, all := w.of(name), w.signal
	err := abi.CheckPending(name, abi.Untaken{N: of.n, Bytes: of.bytes}, abi.Untaken{N: all.n, Bytes: all.bytes}, bytes)
	if err != nil {
		return err
	}
	if need := len(j.entries) + 1 + entriesToReceive*(int(all.n)+1); need > callEntries {
		return abi.Errorf(abi.Limit, "the journal would have %d entries when the signal %q and the %d before it are received, calls "+
			"may use %d of %d; the workflow should continue as new", need, name, all.n, callEntries, abi.MaxEntries)
	}
	if need := j.bytes + entryBytes + abi.MaxNameBytes + bytes + bytesToReceive*(all.n+1); need > callBytes {
		return abi.Errorf(abi.Limit, "the journal would have %d bytes when the signal %q and the %d before it are received, calls "+
			"may use %d of %d; the workflow should continue as new", need, name, all.n, callBytes, abi.MaxJournalBytes)
	}
	return nil
}
