package limits_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/limits"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

func newWindows(t *testing.T) (*limits.StartWindows, *memstore.Store) {
	s := memstore.New().Open()
	t.Cleanup(func() { _ = s.Close() })
	return limits.NewStartWindows(s), s
}

// open opens the window for the key in an input, and returns the number of cells of its workflow.
func open(t *testing.T, w *limits.StartWindows, s *memstore.Store, input string, x limits.StartWindow) int {
	t.Helper()
	k, err := w.Lock(t.Context(), 0, "w", &limits.StartPolicy{Ms: 1000, Per: "input.c"}, []byte(input))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Unlock()
	if ok, err := k.Open(t.Context(), x); !ok || err != nil || k.Window != x {
		t.Fatal(ok, err, k.Window)
	}
	cells, err := s.Cells(t.Context(), store.CellQuery{Queue: store.RunKey{ID: limits.StartWindowPrefix + "w"}, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if problems := limits.CheckStartWindows(limits.StartWindowPrefix+"w", cells); len(problems) > 0 {
		t.Error(problems)
	}
	return len(cells)
}

// TestParseStartPolicy parses policies and formats them again, and refuses invalid ones with a sentence.
func TestParseStartPolicy(t *testing.T) {
	for text, want := range map[string]string{"10s": "10s", " 1h  per input.a.b ": "1h per input.a.b", "1ms": "1ms",
		"366d": "366d"} {
		p, err := limits.ParseStartPolicy(true, text)
		if err != nil || !p.Throttle || p.String() != want {
			t.Errorf("%q: %v, %v, want %q", text, p.String(), err, want)
		}
	}
	for text, want := range map[string]string{"": "a debounce is a duration from 1ms to 366d",
		"0s": `got "0s"`, "-1s": `got "-1s"`, "367d": `got "367d"`, "10s per": `got "10s per"`,
		"10s by input.a": `got "10s by input.a"`, "10s per a": `"a"`} {
		if _, err := limits.ParseStartPolicy(false, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestKeys gives each key its own window, which another host and a later process see.
func TestKeys(t *testing.T) {
	w, s := newWindows(t)
	for i, input := range []string{`{"c":"a"}`, `{"c":"b"}`, `{"c":1}`, `{}`, `not JSON`} {
		open(t, w, s, input, limits.StartWindow{Run: fmt.Sprint(i), EndMs: 10})
	}
	for input, run := range map[string]string{`{"c":"a","d":1}`: "0", `{"c":"b"}`: "1", `{"c":1}`: "2", `{"c":"c"}`: ""} {
		k, err := limits.NewStartWindows(s).Lock(t.Context(), 0, "w", &limits.StartPolicy{Ms: 1000, Per: "input.c"}, []byte(input))
		if err != nil {
			t.Fatal(err)
		}
		if k.Unlock(); k.Window.Run != run {
			t.Errorf("%s has the window of %q, want %q", input, k.Window.Run, run)
		}
	}
}

// TestLock makes concurrent starts with one key: one of them finds no window, and the others find the first one's.
func TestLock(t *testing.T) {
	w, _ := newWindows(t)
	const starts = 50
	began := make(chan bool, starts)
	for i := range starts {
		go func() {
			k, err := w.Lock(t.Context(), 0, "w", &limits.StartPolicy{Ms: 1000}, nil)
			if err != nil {
				t.Error(err)
				began <- false
				return
			}
			defer k.Unlock()
			first := k.Window.Run == ""
			runtime.Gosched()
			if first {
				if ok, err := k.Open(t.Context(), limits.StartWindow{Run: fmt.Sprint(i), EndMs: 10}); !ok || err != nil {
					t.Error(ok, err)
				}
			}
			began <- first
		}()
	}
	n := 0
	for range starts {
		if <-began {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d of them begin a window", n)
	}
}

// TestLockEnds cancels a caller that waits for the start of another caller.
func TestLockEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newWindows(t)
		lock := func(ctx context.Context) (*limits.StartKey, error) {
			return w.Lock(ctx, 0, "w", &limits.StartPolicy{Ms: 1000}, nil)
		}
		held, err := lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		given := make(chan error, 1)
		go func() {
			_, err := lock(ctx)
			given <- err
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case err := <-given:
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		default:
			t.Error("it waits for the lock although its caller has gone away")
		}
		held.Unlock()
		if k, err := lock(t.Context()); err != nil {
			t.Error(err)
		} else {
			k.Unlock()
		}
	})
}

// TestOpenConflict has two hosts open the window of a key: one of them succeeds, and the other one finds it.
func TestOpenConflict(t *testing.T) {
	_, s := newWindows(t)
	var keys [2]*limits.StartKey
	for i := range keys {
		var err error
		keys[i], err = limits.NewStartWindows(s).Lock(t.Context(), 0, "w", &limits.StartPolicy{Ms: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := keys[0].Open(t.Context(), limits.StartWindow{Run: "a", EndMs: 5}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if ok, err := keys[1].Open(t.Context(), limits.StartWindow{Run: "b", EndMs: 5}); ok || err != nil || keys[1].Window.Run != "a" {
		t.Fatal(ok, err, keys[1].Window)
	}
	if ok, err := keys[1].Open(t.Context(), limits.StartWindow{Run: "b", EndMs: 5}); !ok || err != nil || keys[1].Window.Run != "b" {
		t.Fatal("it knows by now what was there:", ok, err, keys[1].Window)
	}
}

// TestClockSet: a window that begins in the future begins now, and keeps its length.
func TestClockSet(t *testing.T) {
	w, s := newWindows(t)
	open(t, w, s, "", limits.StartWindow{Run: "r", FirstMs: 5000, EndMs: 6000})
	k, err := w.Lock(t.Context(), 0, "w", &limits.StartPolicy{Ms: 1000, Per: "input.c"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Unlock()
	for _, now := range []int64{9000, 5000, 1000, 1000} {
		if err := k.ClockSet(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
	if want := (limits.StartWindow{Run: "r", FirstMs: 1000, EndMs: 2000}); k.Window != want {
		t.Errorf("%+v", k.Window)
	}
}

// TestSweep deletes old windows as new ones begin, so that the stored windows are bounded by the current ones.
func TestSweep(t *testing.T) {
	w, s := newWindows(t)
	for i := range 2000 {
		at := int64(i) * 10
		if n := open(t, w, s, fmt.Sprintf(`{"c":%d}`, i), limits.StartWindow{Run: "r", FirstMs: at, EndMs: at + 100}); n > 60 {
			t.Fatalf("%d windows are stored after %d starts, of which 11 go on", n, i+1)
		}
	}
}

// TestPolicies sets, lists and deletes policies, whose number is limited.
func TestPolicies(t *testing.T) {
	w, _ := newWindows(t)
	set := func(i int, p *limits.StartPolicy) error { return w.Set(t.Context(), 0, fmt.Sprintf("w%d", i), p) }
	for i := range limits.MaxPolicies {
		if err := set(i, &limits.StartPolicy{Ms: int64(i) + 1}); err != nil {
			t.Fatal(err)
		}
	}
	var limit *abi.Error
	if err := set(limits.MaxPolicies, &limits.StartPolicy{Ms: 1}); !errors.As(err, &limit) || limit.Code != abi.Limit {
		t.Error(err)
	}
	if err := errors.Join(set(3, &limits.StartPolicy{Ms: 7}), set(4, nil), set(4, nil),
		set(limits.MaxPolicies, &limits.StartPolicy{Ms: 1})); err != nil {
		t.Error(err)
	}
	if p, err := w.Of(t.Context(), 0, "w3"); err != nil || p.Ms != 7 {
		t.Error(p, err)
	}
	if p, err := w.Of(t.Context(), 0, "w4"); err != nil || p != nil {
		t.Error(p, err)
	}
	if p, err := w.Of(t.Context(), 1, "w3"); err != nil || p != nil {
		t.Error("in another namespace:", p, err)
	}
	if list, err := w.All(t.Context(), 0); err != nil || len(list) != limits.MaxPolicies {
		t.Error(len(list), err)
	}
}

// Each new window deletes old ones, whatever their names: if only one is current at a time, one is stored.
func TestWindowsGo(t *testing.T) {
	w, s := newWindows(t)
	for i := range int64(300) {
		if n := open(t, w, s, fmt.Sprintf(`{"c":"%d"}`, i), limits.StartWindow{Run: "r", FirstMs: 1000 * i, EndMs: 1000*i + 999}); n > 1 {
			t.Fatalf("after window %d there are %d", i, n)
		}
	}
}
