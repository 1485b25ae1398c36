package journal

import (
	"github.com/wfhost/wfhost/abi"
)

const (
	// entriesToReceive is the number of entries that receiving a signal appends: the call and the delivery.
	entriesToReceive = 2
	// bytesToReceive is an upper bound of their size: only the call has the name.
	bytesToReceive = entriesToReceive*entryBytes + abi.MaxNameBytes
)

// room returns an abi.Limit error if too many signals are pending to accept another one with the given name and payload size:
// too many in total or of this name, or more than the workflow could receive within the journal's share for calls.
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
