package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

const hour = int64(time.Hour / time.Millisecond)

// hourly returns the state of a schedule that is due every hour, as of 0.
func hourly(t *testing.T, change func(*Definition)) *State {
	t.Helper()
	d := Definition{Workflow: "w", When: "@every 1h"}
	if change != nil {
		change(&d)
	}
	s := &State{}
	if err := s.define(d, 0); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPolicies decides about three instants while the run of the first one is in progress.
func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		policy Overlap
		want   string
	}{
		{Skip, "start 1; skipped 2, buffer [], running [a]"},
		{BufferOne, "start 1; skipped 1, buffer [2], running [a]"},
		{BufferAll, "start 1; skipped 0, buffer [2 3], running [a]"},
		{AllowAll, "start 1, start 2, start 3; skipped 0, buffer [], running [a b c]"},
		{CancelOther, "start 1, cancel [a], cancel [a]; skipped 1, buffer [3], running [a]"},
		{TerminateOther, "start 1, terminate [a], start 2, terminate [b], start 3; skipped 0, buffer [], running [c]"},
	} {
		s := hourly(t, func(d *Definition) { d.Overlap = c.policy })
		var did []string
		for do, ok := s.Next("s", 3*hour); ok; do, ok = s.Next("s", 3*hour) {
			if do.Cancel != nil {
				did = append(did, fmt.Sprint("cancel ", do.Cancel))
			}
			for _, run := range do.Terminate {
				did = append(did, "terminate ["+run+"]")
				s.RunLives(run, false)
			}
			if do.Wait != nil {
				s.Replace(*do.Wait)
			}
			if do.Start != nil {
				did = append(did, fmt.Sprint("start ", do.Start.AtMs/hour))
				s.Fired(*do.Start, string(rune('a'+s.Started)), true, 3*hour)
			}
		}
		var waiting []int64
		for _, in := range s.Buffer {
			waiting = append(waiting, in.AtMs/hour)
		}
		got := fmt.Sprintf("%s; skipped %d, buffer %v, running %v", strings.Join(did, ", "), s.Skipped, waiting, s.Running)
		if got != c.want || s.CursorMs != 3*hour || s.Wake("s", 3*hour) != 4*hour {
			t.Errorf("%s: %s, want %s; wakes at %d", c.policy, got, c.want, s.Wake("s", 3*hour))
		}
	}
}

// TestBufferIsBounded buffers more instants than allowed: the rest is missed.
func TestBufferIsBounded(t *testing.T) {
	s := hourly(t, func(d *Definition) { d.Overlap, d.CatchUpMs = BufferAll, 2000*hour })
	s.Running = []string{"a"}
	if do, ok := s.Next("s", 1005*hour); ok {
		t.Errorf("%+v", do)
	}
	if len(s.Buffer) != MaxBuffered || s.Lost != 5 || s.Missed[0].Count != 5 {
		t.Errorf("%d wait, %d missed: %+v", len(s.Buffer), s.Lost, s.Missed)
	}
	if n := len(s.encode()); n > store.MaxScheduleBytes {
		t.Errorf("a state of %d bytes, the limit is %d", n, store.MaxScheduleBytes)
	}
}

// TestGrowth adds everything that may be added to the largest definition: the result can be stored.
func TestGrowth(t *testing.T) {
	s := &State{}
	d := Definition{Workflow: "w", When: "@every 1h", Input: make([]byte, MaxInputBytes), Overlap: BufferAll, Attributes: map[string]string{}}
	for i := range 64 {
		d.Attributes[fmt.Sprint("k", i)] = strings.Repeat("<", 1024) // six bytes each as JSON
	}
	if err := s.define(d, 0); err == nil || !strings.Contains(err.Error(), "the limit is") {
		t.Errorf("attributes that take too much: %v", err)
	}
	for n := range 64 { // as many as are accepted
		d.Attributes[fmt.Sprint("k", n)] = ""
		if s.define(d, 0) == nil {
			break
		}
	}
	for i := range 2 * MaxBuffered {
		s.buffer(Instant{AtMs: int64(i) + 1e12, Kind: Triggered})
		s.Asked = append(s.Asked, Asked{Instant{AtMs: int64(i) + 1e12, Kind: Triggered}, true})[:min(i+1, maxAsked)]
		s.Fired(Instant{AtMs: -1, Kind: Triggered}, strings.Repeat("r", 120)+fmt.Sprint(i), true, 1e12)
		s.miss(one(Instant{AtMs: int64(i)}, strings.Repeat("\x01", 5000)+fmt.Sprint(i)))
		s.Missed[len(s.Missed)-1].Reason += fmt.Sprint(i)
	}
	s.Note = strings.Repeat("\x01", MaxNoteBytes)
	s.Refused(Instant{}, strings.Repeat("\x01", 5000), 1)
	if n := len(s.encode()); n > store.MaxScheduleBytes {
		t.Errorf("a state of %d bytes, the limit is %d", n, store.MaxScheduleBytes)
	}
}

// TestRunID keeps runs in their schedule's partition, with unique ids.
func TestRunID(t *testing.T) {
	seen := map[string]bool{}
	for i := range 200 {
		key := store.RunKey{Namespace: store.NamespaceID(i % 3), ID: strings.Repeat("s", 1+i%MaxIDBytes)}
		for _, kind := range []Kind{Regular, Triggered} {
			id := RunID(key, Instant{AtMs: int64(i) * 1001 * 3600, Kind: kind})
			of := store.RunKey{Namespace: key.Namespace, ID: id}
			if err := abi.CheckRunID(id); err != nil || of.Partition() != key.Partition() || seen[fmt.Sprint(of)] {
				t.Errorf("%q of %q: %v", id, key.ID, err)
			}
			seen[fmt.Sprint(of)] = true
		}
		if RunID(key, Instant{AtMs: 5}) != RunID(key, Instant{AtMs: 5, Kind: Filled}) {
			t.Error("a backfill starts another run")
		}
	}
}

// TestRefused retries with a backoff, and gives up after the catch-up window.
func TestRefused(t *testing.T) {
	s := hourly(t, func(d *Definition) { d.CatchUpMs = hour / 2 })
	now, waits := hour, []int64{}
	for {
		do, ok := s.Next("s", now)
		if do.Find != nil { // the window is over
			s.Absent(*do.Find)
			do, ok = s.Next("s", now)
		}
		if s.Lost > 0 {
			break
		}
		if !ok {
			t.Fatalf("nothing is done at %d: %+v", now, s)
		}
		if s.Refused(*do.Start, "no room", now); s.Error != "no room" {
			t.Errorf("%+v", s)
		}
		if _, ok := s.Next("s", s.Fault.RetryMs-1); ok {
			t.Error("it is tried too early")
		}
		waits = append(waits, (s.Fault.RetryMs-now)/1000)
		now = s.Wake("s", now)
		if now != s.Fault.RetryMs {
			t.Fatalf("wakes at %d, want %d", now, s.Fault.RetryMs)
		}
	}
	if !slices.Equal(waits[:8], []int64{1, 2, 4, 8, 16, 32, 60, 60}) || len(waits) < 30 {
		t.Errorf("waits %v", waits)
	}
	if s.Missed[0].Reason != "no room" || s.CursorMs != hour || s.Wake("s", now) != 2*hour {
		t.Errorf("%+v", s)
	}
}

// TestJitterStaysInOrder has a jitter longer than the interval: the order is kept.
func TestJitterStaysInOrder(t *testing.T) {
	s := hourly(t, func(d *Definition) { d.JitterMs = 3 * hour })
	last, delays := int64(0), map[int64]bool{}
	for _, at := range s.Upcoming("s", 0, 1000) {
		if at[1] < at[0] || at[1] >= at[0]+hour || at[1] <= last {
			t.Fatalf("%d is started at %d, the one before at %d", at[0], at[1], last)
		}
		last = at[1]
		delays[(at[1]-at[0])*4/hour] = true
		if s.fire("s", at[0]) != at[1] {
			t.Error("the jitter differs")
		}
	}
	if len(delays) != 4 || s.fire("t", hour) == s.fire("s", hour) {
		t.Errorf("the jitter does not scatter: %v", delays)
	}
}

// TestCatchUp wakes long after several instants were due on a host that was down: instants without a run are missed
// at once, and counted.
func TestCatchUp(t *testing.T) {
	for _, c := range []struct {
		hours  int64 // how long the host was not there
		looked int64 // for how many instants a run is searched
		want   Miss
	}{
		{30, 27, Miss{Count: 27}},
		{3 * maxCounted, maxStarts, Miss{Count: maxCounted + maxStarts - 1, More: true}},
	} {
		c.want.AtMs, c.want.LastMs, c.want.Reason = hour, (c.hours-3)*hour, "the host was not there within 2h59m59.999s"
		s := hourly(t, func(d *Definition) { d.CatchUpMs, d.Overlap = 3*hour-1, AllowAll })
		now, looked, started := c.hours*hour, int64(0), []int64{}
		for do, ok := s.Next("s", now); ok; do, ok = s.Next("s", now) {
			if do.Find != nil {
				looked++
				s.Absent(*do.Find)
				continue
			}
			started = append(started, c.hours-do.Start.AtMs/hour)
			s.Fired(*do.Start, fmt.Sprint("r", do.Start.AtMs), true, now)
		}
		if looked != c.looked || s.CursorMs != now || !slices.Equal(started, []int64{2, 1, 0}) || !slices.Equal(s.Missed, []Miss{c.want}) {
			t.Errorf("%d hours: %d looked for, started %v hours ago, missed %+v, want %+v", c.hours, looked, started, s.Missed, c.want)
		}
	}
}

// TestRunsEnd has a schedule of three runs: buffered instants count.
func TestRunsEnd(t *testing.T) {
	s := hourly(t, func(d *Definition) { d.Runs, d.Overlap = 3, BufferAll })
	if next := s.Upcoming("s", 0, 10); len(next) != 3 {
		t.Errorf("%v come, want three", next)
	}
	do, ok := s.Next("s", 2*hour)
	if !ok || do.Start == nil {
		t.Fatalf("%+v", do)
	}
	s.Fired(*do.Start, "a", true, 2*hour)
	if do, ok := s.Next("s", 2*hour); ok {
		t.Fatalf("%+v is done beside the run", do)
	}
	if next := s.Upcoming("s", 2*hour, 10); len(s.Buffer) != 1 || len(next) != 1 || next[0][0] != 3*hour || s.Ended() {
		t.Errorf("%v come, %v wait, ended %v", next, s.Buffer, s.Ended())
	}
	s.Next("s", 9*hour)
	if next := s.Upcoming("s", 9*hour, 10); len(s.Buffer) != 2 || len(next) != 0 || s.Ended() {
		t.Errorf("%v come, %v wait, ended %v", next, s.Buffer, s.Ended())
	}
}

// TestPausedWithinJitter pauses a schedule between an instant and its delayed run: the run starts after the schedule
// is resumed.
func TestPausedWithinJitter(t *testing.T) {
	s := hourly(t, func(d *Definition) { d.JitterMs = hour })
	at := hour
	for s.fire("s", at) < at+2 {
		at += hour
	}
	s.CursorMs, s.Paused = at-hour, true
	for _, c := range []struct{ now, want int64 }{
		{at, at},
		{s.fire("s", at) - 1, at},
		{s.fire("s", at), at + hour},
	} {
		if next := s.Upcoming("s", c.now, 1); len(next) != 1 || next[0][0] != c.want {
			t.Errorf("at %d comes %v, want %d", c.now, next, c.want)
		}
	}
}

func TestDefinition(t *testing.T) {
	ok := Definition{Workflow: "w", When: "@daily"}
	if err := ok.Check(); err != nil || ok.Overlap != Skip || ok.CatchUpMs != 24*hour {
		t.Errorf("%+v %v", ok, err)
	}
	many := map[string]string{}
	for i := range abi.MaxAttributes + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for want, change := range map[string]func(*Definition){
		"workflow":              func(d *Definition) { d.Workflow = "" },
		"it has 2 fields":       func(d *Definition) { d.When = "1 1" },
		"unknown":               func(d *Definition) { d.Zone = "x" },
		`got "never"`:           func(d *Definition) { d.Overlap = "never" },
		"the limit is 64":       func(d *Definition) { d.Attributes = many },
		"attribute":             func(d *Definition) { d.Attributes = map[string]string{"": "x"} },
		"the limit is 65536":    func(d *Definition) { d.Input = make([]byte, MaxInputBytes+1) },
		"must not be negative":  func(d *Definition) { d.Runs = -1 },
		"at most 24h":           func(d *Definition) { d.JitterMs = 25 * hour },
		"at least 10s, got 1ms": func(d *Definition) { d.CatchUpMs = 1 },
		"before it begins":      func(d *Definition) { d.FromMs, d.UntilMs = 5, 4 },
	} {
		d := Definition{Workflow: "w", When: "@daily"}
		change(&d)
		var refusal *abi.Error
		if err := d.Check(); !errors.As(err, &refusal) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, id := range []string{"", "a b", strings.Repeat("x", MaxIDBytes+1)} {
		if CheckID(id) == nil {
			t.Errorf("%q is accepted", id)
		}
	}
}
