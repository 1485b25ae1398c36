package journal

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// TestOpenHandles opens, delays, starts, resolves and withdraws handles of all kinds: the index of open handles
// equals a search through all handles.
func TestOpenHandles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := &Journal{}
		now := int64(1000)
		for _, e := range []store.Entry{(Started{RunID: "r", Workflow: "w"}).Entry(nil), {Kind: store.KindActivated}} {
			if _, err := j.Append(e, now); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now += rapid.Int64Range(0, 5).Draw(t, "time")
			e := store.Entry{Handle: int64(len(j.handles) + 1), Name: "x"}
			switch rapid.IntRange(0, 8).Draw(t, "what") {
			case 0, 1:
				e.Kind, e.Target = store.KindStep, "host/x"
			case 2:
				e.Kind, e.HasDue, e.DueUnixMs = store.KindSleep, true, now+20
			case 3:
				e.Kind, e.Name = store.KindSignalWait, rapid.SampledFrom([]string{"a", abi.UpdatePrefix + "u"}).Draw(t, "name")
			default:
				if len(j.handles) == 0 {
					continue
				}
				e.Handle = rapid.Int64Range(1, int64(len(j.handles))).Draw(t, "handle")
				h := j.Handle(e.Handle)
				switch kind := rapid.IntRange(0, 4).Draw(t, "event"); {
				case kind == 0 || h.Step == nil:
					e.Kind = store.KindWithdraw
				case kind == 1:
					e.Kind, e.Attempt = store.KindAttemptStarted, h.Step.Attempt+1
				case kind == 2:
					e.Kind, e.Data = store.KindStepResult, []byte("1")
				default:
					e.Kind, e.Attempt, e.Data = store.KindAttemptFailed, max(h.Step.Attempt, 1), []byte(`{}`)
					e.HasDue, e.DueUnixMs = true, now+rapid.Int64Range(1, 30).Draw(t, "delay")
				}
				e.Name = ""
			}
			if _, err := j.Append(e, now); err != nil {
				continue // not legal in the current state
			}
			agreeOpen(t, j, now)
		}
	})
}

func agreeOpen(t *rapid.T, j *Journal, now int64) {
	var steps []int64
	var newest, newestUpdate, next int64
	for i := range j.handles {
		h := &j.handles[i]
		switch {
		case !h.Open() || h.Kind == store.KindSleep:
		case h.Step != nil:
			steps = append(steps, h.ID)
			newest = h.ID
			if s := h.Step; !s.InFlight && s.RetryMs > now && (next == 0 || s.RetryMs < next) {
				next = s.RetryMs
			}
		case h.Name == abi.UpdatePrefix+"u":
			newestUpdate = h.ID
		default:
			newest = h.ID
		}
	}
	if newest == 0 {
		newest = newestUpdate
	}
	var got []int64
	for h := range j.Steps {
		got = append(got, h.ID)
	}
	if len(got) != len(steps) || j.OpenSteps() != len(steps) {
		t.Fatalf("open steps %v, want %v", got, steps)
	}
	for i := range got {
		if got[i] != steps[i] {
			t.Fatalf("open steps %v, want %v", got, steps)
		}
	}
	if h := j.Newest(); (h == nil) != (newest == 0) || h != nil && h.ID != newest {
		t.Fatalf("the newest is %+v, want %d", h, newest)
	}
	if at, ok := j.retry(now); ok != (next != 0) || ok && at != next {
		t.Fatalf("the next attempt is at %d %v, want %d", at, ok, next)
	}
}
