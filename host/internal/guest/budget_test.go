package guest

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/replay"
	"github.com/wfhost/wfhost/store"
)

// metered is the budget of a guest that executes a step function, which has no journal to replay.
func metered(fuel int64, limit time.Duration) *Metered {
	return &Metered{Machine: replay.New(replay.Config{Mode: replay.StepFn}),
		Limits: Limits{Grants: Grants(fuel), CPU: limit, Calls: abi.MaxHostCalls}}
}

// TestWorkIsFuel spends fuel in calls, in portions of any size.
func TestWorkIsFuel(t *testing.T) {
	for _, portion := range []int64{1 << 16, engine.FuelGrant, 3 * engine.FuelGrant} {
		m := metered(10*engine.FuelGrant, time.Hour)
		var worked int64
		for m.Work(portion) == nil {
			worked += portion
		}
		if worked < 8*engine.FuelGrant || worked >= 11*engine.FuelGrant {
			t.Errorf("in portions of %d: %d bytes", portion, worked)
		}
	}
}

func TestWorkLooksAtTheClock(t *testing.T) {
	m := metered(0, -1)
	m.Limits.Grants = 0
	if err := m.Work(engine.FuelGrant); !errors.Is(err, ErrSlow) {
		t.Error(err)
	}
	m = metered(0, -1)
	var err error
	for range mostPerLook {
		err = m.Enter()
		if err != nil {
			break
		}
	}
	if !errors.Is(err, ErrSlow) {
		t.Error("calls:", err)
	}
	m = metered(0, time.Hour)
	halted := errors.New("halted")
	m.Stop(halted)
	m.Stop(errors.New("too late"))
	for _, err := range []error{m.Work(1), m.Enter(), m.Refuel(), m.Stopped()} {
		if !errors.Is(err, halted) {
			t.Error(err)
		}
	}
}

// TestLimits reaches each limit, and checks that Look is called for each call and slice.
func TestLimits(t *testing.T) {
	m := metered(2*engine.FuelGrant-1, time.Hour)
	m.Limits.Calls = 3
	looks := 0
	m.Look = func() error { looks++; return nil }
	for i, want := range []error{nil, nil, nil, ErrCalls} {
		if err := m.Enter(); !errors.Is(err, want) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	for i, want := range []error{nil, nil, ErrFuel} {
		if err := m.Refuel(); !errors.Is(err, want) {
			t.Errorf("slice %d: %v", i, err)
		}
	}
	if looks != 6 { // not for the call over the limit
		t.Error("it was looked", looks, "times")
	}
	m.Rested() // it has not waited
	if err := m.Enter(); !errors.Is(err, ErrCalls) {
		t.Error("it counts anew without a wait:", err)
	}
	yields := errors.New("yields")
	m = metered(engine.FuelGrant, time.Hour)
	m.Look = func() error { return yields }
	if err := errors.Join(m.Enter(), m.Refuel()); !errors.Is(err, yields) {
		t.Error(err)
	}
}

// TestGranted counts granted fuel, and the bytes of calls, once each, including those of a replay.
func TestGranted(t *testing.T) {
	m := metered(10*engine.FuelGrant, time.Hour)
	for _, err := range []error{m.Refuel(), m.Work(7), m.Work(engine.FuelGrant), m.Refuel()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	m.Rested()
	if m.Granted != 3*engine.FuelGrant+7 {
		t.Errorf("granted are %d", m.Granted)
	}
	m.Stop(errors.New("halted"))
	_ = m.Refuel()
	if m.Granted != 3*engine.FuelGrant+7 {
		t.Errorf("a guest that was stopped was granted fuel: %d", m.Granted)
	}
}

// Five grants make a slice, and after each of the other grants the guest yields. The first grant of an instance
// without fuel does not count as computing.
func TestUnfuelled(t *testing.T) {
	for fuelled, want := range map[bool]int{true: 3, false: 2} {
		turns, slices := 0, 0
		letOthers = func() { turns++ }
		defer func() { letOthers = runtime.Gosched }()
		m := metered(20*engine.FuelGrant, time.Hour)
		m.Slice, m.Unfuelled = func() error { slices++; return nil }, !fuelled
		for range 3 * GrantsPerSlice {
			if err := m.Refuel(); err != nil {
				t.Fatal(err)
			}
		}
		if slices != want || turns != 3*(GrantsPerSlice-1) || m.Granted != 3*GrantsPerSlice*engine.FuelGrant {
			t.Errorf("fuelled %v: %d slices, %d other turns, %d granted", fuelled, slices, turns, m.Granted)
		}
	}
}

// Calls make a slice when they have taken as long as one, whatever each of them costs; the time that the slice waits
// is not counted.
func TestSliceOfCalls(t *testing.T) {
	for cost, want := range map[time.Duration]int{time.Microsecond: 10, 100 * time.Microsecond: 10_000 * 100 / 1000} {
		synctest.Test(t, func(t *testing.T) {
			m := metered(10*engine.FuelGrant, time.Hour)
			slices := 0
			m.Look = func() error { <-time.NewTimer(cost).C; return nil }
			m.Slice = func() error { slices++; <-time.NewTimer(time.Minute).C; return nil }
			for range 10_000 {
				if err := m.Enter(); err != nil {
					t.Fatal(err)
				}
			}
			if slices < want-1 || slices > want {
				t.Errorf("calls of %v each: %d slices, want %d", cost, slices, want)
			}
			slices = 0
			for i := range 2 * mostPerLook { // a wait between any two looks
				if err := m.Enter(); err != nil {
					t.Fatal(err)
				}
				if i%leastPerLook == leastPerLook/2 {
					<-time.NewTimer(time.Second).C
					m.Waited()
				}
			}
			if slices > 1 {
				t.Errorf("waits count as calls: %d slices", slices)
			}
		})
	}
}

// The time that other goroutines use while the guest yields is not the guest's: it does not count towards a slice,
// and does not make the guest yield more often.
func TestOthersAreNoSlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, slices := 0, 0
		letOthers = func() { turns++; <-time.NewTimer(time.Millisecond).C }
		defer func() { letOthers = runtime.Gosched }()
		m := metered(10*engine.FuelGrant, time.Hour)
		m.Look = func() error { <-time.NewTimer(time.Microsecond).C; return nil }
		m.Slice = func() error { slices++; return nil }
		for range 900 {
			if err := m.Enter(); err != nil {
				t.Fatal(err)
			}
		}
		if slices > 0 || turns < 8 || turns > 12 {
			t.Errorf("in 0.9 ms of calls others were let go first %d times, and there were %d slices; want 8 or a few more, and 0",
				turns, slices)
		}
	})
}

// A guest that makes a few calls after a wake does not yield: it will soon wait, and then others continue.
func TestBriefGuestsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := 0
		letOthers = func() { turns++ }
		defer func() { letOthers = runtime.Gosched }()
		m := metered(10*engine.FuelGrant, time.Hour)
		m.Look = func() error { <-time.NewTimer(100 * time.Microsecond).C; return nil }
		for range 100 {
			for range 5 {
				if err := m.Enter(); err != nil {
					t.Fatal(err)
				}
			}
			m.Waited()
		}
		if turns > 0 {
			t.Errorf("a guest that waits after 0.5 ms of calls has let others go first %d times", turns)
		}
		for range 100 {
			if err := m.Enter(); err != nil {
				t.Fatal(err)
			}
		}
		if turns < 90 {
			t.Errorf("in 10 ms of calls others were let go first %d times, want 90 or more", turns)
		}
	})
}

// The time that other goroutines use while the guest yields does not count towards its limit, either.
func TestOthersAreNotSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letOthers = func() { <-time.NewTimer(10 * time.Millisecond).C }
		defer func() { letOthers = runtime.Gosched }()
		m := metered(10*engine.FuelGrant, time.Minute)
		m.Look = func() error { <-time.NewTimer(10 * time.Microsecond).C; return nil }
		m.Slice = func() error { return nil }
		for i := range 90_000 { // 0.9 s
			if err := m.Enter(); err != nil {
				t.Fatalf("after %v of calls: %v", time.Duration(i)*10*time.Microsecond, err)
			}
		}
	})
}

// Cheap calls before a wait do not delay the check whether the calls after it are slow.
func TestCallsAfterAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, cost := 0, time.Duration(0)
		letOthers = func() { turns++ }
		defer func() { letOthers = runtime.Gosched }()
		m := metered(10*engine.FuelGrant, time.Hour)
		m.Look = func() error { <-time.NewTimer(cost).C; return nil }
		enter := func(n int) {
			for range n {
				if err := m.Enter(); err != nil {
					t.Fatal(err)
				}
			}
		}
		enter(10_000)
		m.Waited()
		turns, cost = 0, 100*time.Microsecond
		enter(10)
		if turns == 0 {
			t.Error("in a millisecond of calls after a wait others were never let go first")
		}
	})
}

// taken is a journal of deliveries that have arrived.
type taken []store.Entry

func (t taken) Entries() []store.Entry                    { return t }
func (t taken) CallRoom() error                           { return nil }
func (t taken) CheckAttribute(string) error               { return nil }
func (t taken) Now() int64                                { return 0 }
func (t taken) Append(e store.Entry) (store.Entry, error) { return e, nil }

// Taking a delivery that has arrived already is not a rest: a guest that does so between its calls counts as
// computing if the calls take longer than in a replay. The clock is read as rarely as without deliveries.
func TestDeliveriesAreNoRest(t *testing.T) {
	for calls, want := range map[int]int{2: 0, 33: 200} { // of 10 µs each, before a delivery
		synctest.Test(t, func(t *testing.T) {
			journal := taken{{Kind: store.KindStarted}, {Seq: 1, Kind: store.KindActivated}}
			for i := range 1000 {
				journal = append(journal, store.Entry{Seq: store.Seq(i + 2), Kind: store.KindClock, DueUnixMs: int64(i)})
			}
			m := metered(10*engine.FuelGrant, time.Hour)
			m.Machine = replay.New(replay.Config{Mode: replay.Live, Tail: journal})
			slices, turns := 0, 0
			letOthers = func() { turns++ }
			defer func() { letOthers = runtime.Gosched }()
			m.Slice = func() error { slices++; return nil }
			m.Look = func() error { <-time.NewTimer(10 * time.Microsecond).C; return nil }
			for range 1000 {
				for range calls {
					if err := m.Enter(); err != nil {
						t.Fatal(err)
					}
				}
				if err := m.Work(1 << 20); err != nil { // what a step may bring: a grant, but no part of a slice
					t.Fatal(err)
				}
				if _, err := m.Poll(replay.PollRequest{HasClock: true, TimeoutNs: 5e6}); err != nil {
					t.Fatal(err)
				}
				m.Rested()
			}
			if slices < want || want == 0 && slices > 0 {
				t.Errorf("%d calls before each: %d slices, want %d", calls, slices, want)
			}
			if most := 1000 * calls / 5; turns < most*8/10 { // 50 µs of calls are 5
				t.Errorf("%d calls before each: others were let go first %d times, want about %d", calls, turns, most)
			}
		})
	}
}
