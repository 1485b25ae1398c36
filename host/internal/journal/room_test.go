package journal

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// crowd appends entries until the journal has n.
func crowd(t *testing.T, j *Journal, n int, e store.Entry) {
	t.Helper()
	for j.Len() < n {
		if _, err := j.Append(e, 2000); err != nil {
			t.Fatal(err)
		}
	}
}

var emit = store.Entry{Kind: store.KindEmit, Name: "t"}

// ends checks that the run has ended once, because of its full journal, and that the journal can be read again.
func ends(t *testing.T, j *Journal, message string) {
	t.Helper()
	last := j.Entries()[j.Len()-1]
	if j.Ended() != store.KindFailed || last.Kind != store.KindFailed || !strings.Contains(string(last.Data), `"LIMIT"`) ||
		!strings.Contains(string(last.Data), `"journal"`) || !strings.Contains(string(last.Data), message) {
		t.Fatalf("%s after %d entries: %s %s", j.Ended(), j.Len(), last.Kind, last.Data)
	}
	n := j.Len()
	if _, err := j.Append(emit, 9000); !errors.Is(err, ErrEnded) || j.Len() != n {
		t.Fatal("it goes on after its end", err)
	}
	again := &Journal{}
	for _, e := range j.All() {
		if err := again.Load(e); err != nil {
			t.Fatal(err)
		}
	}
	if again.Ended() != store.KindFailed || again.crowded != j.crowded {
		t.Fatal("it is another one when it is read again")
	}
}

func TestRefusedCallsEnd(t *testing.T) {
	refused := store.Entry{Kind: store.KindEmit, Refused: int32(abi.Limit), Data: []byte("{}")}
	j := begun(t)
	crowd(t, j, 100, refused)
	crowd(t, j, callEntries, emit)
	crowd(t, j, callEntries+abi.RefusalReserve, refused) // those with room before do not count
	if _, err := j.Append(store.Entry{Kind: store.KindContinue}, 2000); err != nil {
		t.Fatal("it cannot continue as new:", err)
	}
	if _, err := j.Append(refused, 2000); !errors.Is(err, ErrEnded) {
		t.Fatal(err)
	}
	ends(t, j, "1000 calls changed nothing")
}

func TestCancelsThatChangeNothingEnd(t *testing.T) {
	j := begun(t)
	for i := range 2 {
		if _, err := j.Append(store.Entry{Kind: store.KindSleep, Name: strconv.Itoa(i), Handle: int64(i + 1), DueUnixMs: 5000,
			HasDue: true}, 2000); err != nil {
			t.Fatal(err)
		}
	}
	crowd(t, j, callEntries, emit)
	crowd(t, j, callEntries+abi.RefusalReserve, store.Entry{Kind: store.KindWithdraw, Handle: 1, Code: WithdrawTold})
	if _, err := j.Append(store.Entry{Kind: store.KindWithdraw, Handle: 2, Code: WithdrawDone}, 2000); err != nil {
		t.Fatal("it cannot clean up:", err)
	}
	if _, err := j.Append(store.Entry{Kind: store.KindWithdraw, Handle: 1, Code: WithdrawRunning}, 2000); !errors.Is(err, ErrEnded) {
		t.Fatal(err)
	}
	ends(t, j, "withdraw")
}

// TestOldRefusalsLoad loads a journal in which an older release exceeded the limits: the run continues until it asks
// for more.
func TestOldRefusalsLoad(t *testing.T) {
	j := begun(t)
	sleep := store.Entry{Kind: store.KindSleep, Name: "nap", Handle: 1, DueUnixMs: 5000, HasDue: true}
	if _, err := j.Append(sleep, 2000); err != nil {
		t.Fatal(err)
	}
	for j.Len() < abi.MaxEntries+abi.RefusalReserve {
		if err := j.Load(store.Entry{Seq: store.Seq(j.Len()), UnixMs: 2000, Kind: store.KindEmit, Refused: int32(abi.Limit)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.FireDue(6000); err != nil || !j.Handle(1).Resolved {
		t.Fatal("its sleep does not end", err)
	}
	if _, err := j.Append(store.Entry{Kind: store.KindEmit, Refused: int32(abi.Limit)}, 6000); !errors.Is(err, ErrEnded) {
		t.Fatal(err)
	}
	ends(t, j, "changed nothing")
}

func TestClocksEnd(t *testing.T) {
	j := begun(t)
	crowd(t, j, abi.MaxEntries-1, emit)
	for i := range int64(2) {
		j.Suspend(store.Suspension{Seq: store.Seq(j.Len()), Poll: true, PollDue: true, PollDueUnixMs: 3000 + i})
		if err := j.FireDue(4000 + i); err != nil {
			t.Fatal(err)
		}
	}
	if j.Len() != abi.MaxEntries+1 || j.Entries()[abi.MaxEntries-1].Kind != store.KindClock {
		t.Fatal(j.Len())
	}
	if _, ok := j.Wake(); ok {
		t.Fatal("it wakes again")
	}
	ends(t, j, "50000 entries")
}

func TestSkippedClocksEnd(t *testing.T) {
	j := begun(t)
	crowd(t, j, abi.MaxEntries, emit)
	j.Suspend(store.Suspension{Seq: store.Seq(j.Len()), Poll: true, PollDue: true, PollDueUnixMs: 3000})
	if n, err := j.Skip("", 2500); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	ends(t, j, "clock")
}

func TestAttemptsEnd(t *testing.T) {
	j := begun(t)
	step := store.Entry{Kind: store.KindStep, Name: "s", Target: "host/x", Handle: 1, Options: []byte(`{"attempts":0}`)}
	if _, err := j.Append(step, 2000); err != nil {
		t.Fatal(err)
	}
	crowd(t, j, abi.MaxEntries-1, emit)
	started := store.Entry{Kind: store.KindAttemptStarted, Handle: 1, Attempt: 2}
	if _, err := j.Append(started, 2000); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(store.Entry{Kind: store.KindAttemptFailed, Handle: 1, Attempt: 2}, 2000); !errors.Is(err, ErrEnded) {
		t.Fatal(err)
	}
	ends(t, j, "attempt_failed")
}

// TestDeliveriesHaveTheirEntry resolves started calls although other entries have filled the journal, as long as
// there are bytes left.
func TestDeliveriesHaveTheirEntry(t *testing.T) {
	j := begun(t)
	for i := range int64(200) {
		e := store.Entry{Kind: store.KindStep, Name: strconv.FormatInt(i, 10), Target: "host/x", Handle: i + 1}
		if _, err := j.Append(e, 2000); err != nil {
			t.Fatal(err)
		}
	}
	crowd(t, j, abi.MaxEntries, emit)
	for i := int64(1); j.Bytes() < abi.MaxJournalBytes-abi.MaxPayloadBytes-entryBytes; i++ {
		e := store.Entry{Kind: store.KindStepResult, Handle: i, Attempt: 1, Data: make([]byte, abi.MaxPayloadBytes)}
		if _, err := j.Append(e, 2000); err != nil {
			t.Fatal(err)
		}
	}
	e := store.Entry{Kind: store.KindStepResult, Handle: 199, Attempt: 1, Data: make([]byte, abi.MaxPayloadBytes)}
	if _, err := j.Append(e, 2000); !errors.Is(err, ErrEnded) {
		t.Fatal(err)
	}
	ends(t, j, "67108864")
}

func TestSignalsLeaveRoom(t *testing.T) {
	j := begun(t)
	crowd(t, j, signalEntries, emit)
	if _, err := j.CheckSignal("s", "", nil); code(err) != abi.Limit {
		t.Error(err)
	}
	j = begun(t)
	if _, err := j.Append(store.Entry{Kind: store.KindSignalWait, Name: "s", Handle: 1}, 2000); err != nil {
		t.Fatal(err)
	}
	j.bytes = signalBytes - 10
	if _, err := j.CheckSignal("s", "", make([]byte, 5)); err != nil {
		t.Error(err)
	}
	if _, err := j.CheckSignal("s", "", make([]byte, 10)); code(err) != abi.Limit {
		t.Error(err)
	}
}

func TestKeysAreOfTheirName(t *testing.T) {
	j := with(t, Started{RunID: "r"}, store.Entry{Kind: store.KindSignalAccepted, Name: "paid", Target: "order-42"})
	if same, err := j.CheckSignal("paid", "order-42", nil); !same || err != nil {
		t.Error(same, err)
	}
	if same, err := j.CheckSignal("shipped", "order-42", []byte("x")); same || err != nil {
		t.Error(same, err)
	}
	next := with(t, Started{RunID: "r", Keys: j.Keys()})
	if same, err := next.CheckSignal("paid", "order-42", nil); !same || err != nil {
		t.Error("the next iteration has forgotten it", same, err)
	}
	if same, err := next.CheckSignal("shipped", "order-42", nil); same || err != nil {
		t.Error("the next iteration takes it for another", same, err)
	}
}
