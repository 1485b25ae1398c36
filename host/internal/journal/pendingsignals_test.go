package journal

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// flood sends signals with a name until one is refused. It returns the number of accepted signals, and the refusal.
func flood(t *testing.T, j *Journal, name string, data []byte) (n int, err error) {
	t.Helper()
	for ; ; n++ {
		if _, err := j.CheckSignal(name, "", data); err != nil {
			return n, err
		}
		if _, err := j.Append(store.Entry{Kind: store.KindSignalAccepted, Name: name, Data: data}, 2000); err != nil {
			t.Fatal(err)
		}
	}
}

// receiveAll receives signals with a name, as a workflow does, and returns how many it got before the journal was
// full.
func receiveAll(t *testing.T, j *Journal, name string) (n int) {
	t.Helper()
	for j.waits.signal.n > 0 && j.CallRoom() == nil {
		if _, err := j.Append(store.Entry{Kind: store.KindSignalWait, Name: name, Handle: int64(len(j.handles) + 1)}, 2000); err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestEverySignalCanBeReceived floods a sleeping run: every accepted signal can be received, however full the journal
// was.
func TestEverySignalCanBeReceived(t *testing.T) {
	for _, entries := range []int{0, 30_000, 40_000, callEntries - 4, callEntries - 3, callEntries, signalEntries} {
		j := begun(t)
		crowd(t, j, entries, emit)
		accepted, err := flood(t, j, "s", nil)
		if code(err) != abi.Limit {
			t.Fatal(err)
		}
		if entries <= 30_000 && accepted != abi.MaxPendingSignals/2 || entries == callEntries-3 && accepted != 1 || entries > callEntries-3 && accepted != 0 {
			t.Errorf("%d entries: %d signals were accepted: %v", entries, accepted, err)
		}
		if got := receiveAll(t, j, "s"); got != accepted || j.waits.signal.n != 0 {
			t.Errorf("%d entries: %d of %d signals were received", entries, got, accepted)
		}
	}
}

// TestBytesToReceive floods a run whose journal has few bytes left.
func TestBytesToReceive(t *testing.T) {
	j := begun(t)
	j.bytes = callBytes - 5000
	accepted, err := flood(t, j, "s", make([]byte, 100))
	if code(err) != abi.Limit || accepted < 5 || accepted > 12 {
		t.Fatal(accepted, err)
	}
	if got := receiveAll(t, j, "s"); got != accepted || j.waits.signal.n != 0 {
		t.Errorf("%d of %d signals were received", got, accepted)
	}
}

// TestFloodOfOneName leaves room for another name, and both together have a limit.
func TestFloodOfOneName(t *testing.T) {
	j := begun(t)
	n, err := flood(t, j, "a", nil)
	if n != abi.MaxPendingSignals/2 || !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), "5000") {
		t.Fatal(n, err)
	}
	total := n
	for i := range 3 {
		k, err := flood(t, j, fmt.Sprint("b", i), nil)
		total += k
		if i == 0 && k != abi.MaxPendingSignals/2 || code(err) != abi.Limit {
			t.Fatal(k, err)
		}
	}
	if total != abi.MaxPendingSignals {
		t.Errorf("%d in all", total)
	}
	if len(j.waits.byName) != 2 {
		t.Errorf("%d names are known", len(j.waits.byName))
	}
	j = begun(t)
	if n, err := flood(t, j, "a", make([]byte, abi.MaxPayloadBytes)); n != 4 || !strings.Contains(err.Error(), "4194304") {
		t.Fatal(n, err)
	}
	if n, err := flood(t, j, "b", make([]byte, abi.MaxPayloadBytes)); n != 4 || !strings.Contains(err.Error(), "4194304") {
		t.Fatal(n, err)
	}
	if n, err := flood(t, j, "c", []byte("x")); n != 0 || !strings.Contains(err.Error(), "8388608") {
		t.Fatal(n, err)
	}
}

// TestWaitTakesItsSignal, whatever is pending under other names, and however full the journal is.
func TestWaitTakesItsSignal(t *testing.T) {
	j := begun(t)
	if _, err := j.Append(store.Entry{Kind: store.KindSignalWait, Name: "go", Handle: 1}, 2000); err != nil {
		t.Fatal(err)
	}
	_, _ = flood(t, j, "a", nil)
	_, _ = flood(t, j, "b", nil)
	crowd(t, j, callEntries, emit)
	if _, err := j.CheckSignal("go", "", nil); err != nil {
		t.Error(err)
	}
}
