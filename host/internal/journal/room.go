package journal

import (
	"encoding/json"
	"fmt"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// entryBytes is the fixed size counted per entry. The encoding of an entry without payloads is smaller.
const entryBytes = 48

func size(e *store.Entry) int64 {
	return int64(entryBytes + len(e.Name) + len(e.Target) + len(e.Input) + len(e.Options) + len(e.Data))
}

// Size returns the size of entries as Bytes counts it.
func Size(entries []store.Entry) (n int64) {
	for i := range entries {
		n += size(&entries[i])
	}
	return n
}

// Limits of a journal for calls, and for signals from outside. The rest is reserved for calls that were already made:
// deliveries to handles, clocks of polls, and attempts of steps.
const (
	callEntries   = abi.MaxEntries - abi.MaxEntries/abi.DeliveryReserveShare
	callBytes     = abi.MaxJournalBytes - abi.MaxJournalBytes/abi.DeliveryReserveShare
	signalEntries = abi.MaxEntries - abi.MaxEntries/abi.DeliveryReserveShare/2
	signalBytes   = abi.MaxJournalBytes - abi.MaxJournalBytes/abi.DeliveryReserveShare/2
)

// CallRoom returns an abi.Limit error if the journal has no room for another call. Both limits, entries and bytes, keep a share
// for deliveries.
func (j *Journal) CallRoom() error {
	if n := len(j.entries); n >= callEntries {
		return abi.Errorf(abi.Limit, "the journal has %d entries, calls may use %d of %d", n, callEntries, abi.MaxEntries)
	}
	if j.bytes >= callBytes {
		return abi.Errorf(abi.Limit, "the journal has %d bytes, calls may use %d of %d", j.bytes, callBytes, abi.MaxJournalBytes)
	}
	return nil
}

// signalRoom returns an abi.Limit error if the journal has no room for a signal with a payload of n bytes.
func (j *Journal) signalRoom(n int) error {
	if have := len(j.entries); have >= signalEntries {
		return abi.Errorf(abi.Limit, "the journal has %d entries, signals may use %d of %d", have, signalEntries, abi.MaxEntries)
	}
	if have := j.bytes + int64(n); have >= signalBytes {
		return abi.Errorf(abi.Limit, "the journal would have %d bytes, signals may use %d of %d", have, signalBytes,
			abi.MaxJournalBytes)
	}
	return nil
}

// idle reports whether a call changes nothing: a refused call, or a cancel that withdrew nothing. A guest can make any
// number of such calls.
func idle(e *store.Entry) bool {
	return e.Kind.Call() && e.Refused != 0 || e.Kind == store.KindWithdraw && e.Code != WithdrawDone
}

// overflow returns the error that ends the run if the journal has no room for the entry, else nil.
//
// CallRoom refuses calls long before, and each handle has at most one delivery. So overflow limits only the number of
// entries without such a bound: calls that change nothing, clocks of polls, and attempts of steps.
func (j *Journal) overflow(e *store.Entry) *abi.Error {
	attempt := e.Kind == store.KindAttemptStarted || e.Kind == store.KindAttemptFailed
	switch {
	case idle(e) && j.crowded >= abi.RefusalReserve:
		return full("%d calls changed nothing after the journal had no room for calls, the last one is %s %.80q", j.crowded,
			e.Kind, e.Name)
	case (attempt || e.Kind == store.KindClock) && len(j.entries) >= abi.MaxEntries:
		return full("the journal has %d entries, which is the limit, and none is left for %s", len(j.entries), e.Kind)
	case attempt, e.Kind.Delivery() && e.Kind != store.KindCancel: // cancels are excluded: there is at most one
		if n := j.bytes + size(e); n > abi.MaxJournalBytes {
			return full("with %s the journal would have %d bytes, the limit is %d", e.Kind, n, abi.MaxJournalBytes)
		}
	}
	return nil
}

func full(format string, args ...any) *abi.Error {
	return &abi.Error{Code: abi.Limit, Kind: abi.KindJournal,
		Message: fmt.Sprintf(format, args...) + "; the workflow should have continued as new"}
}

// fail ends the run with a failure and returns ErrEnded with the cause.
func (j *Journal) fail(cause *abi.Error, nowUnixMs int64) error {
	e := store.Entry{Kind: store.KindFailed}
	e.Data, _ = json.Marshal(cause) // strings always encode
	if _, err := j.append(e, nowUnixMs); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", ErrEnded, cause.Message)
}
