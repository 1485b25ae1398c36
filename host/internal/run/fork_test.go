package run

import (
	"testing"

	"github.com/wfhost/wfhost/store"
)

// TestForkRefusedBesideAnotherGuest: a guest has left its instance to a body that has not begun, and is refused a
// place because the host drains. Then no guest executes the body: it begins again when the run is active again.
func TestForkRefusedBesideAnotherGuest(t *testing.T) {
	key := store.RunKey{Namespace: 1, ID: "r"}
	r := New(key, Config{Active: true})
	now := int64(1000)
	do := func(ev Event) *Effects {
		now++
		fx := r.Apply(now, ev)
		if fx.Err != nil {
			t.Fatalf("%T: %v", ev, fx.Err)
		}
		return fx
	}
	l := do(Start{New: NewRun{Key: key, Workflow: "w", Version: 1, Seed: make([]byte, 32)}}).Activate
	do(GuestReady{Lease: l})
	for _, e := range []store.Entry{
		{Kind: store.KindStep, Name: "body", Handle: 1},
		{Kind: store.KindSignalWait, Name: "go", Handle: 2},
	} {
		if _, err := l.Append(now, e); err != nil {
			t.Fatal(err)
		}
	}
	fx := do(GuestWaits{Lease: l, CanFork: true, Suspension: store.Suspension{Seq: 4, Poll: true, Events: true}})
	if len(fx.Start) != 1 || fx.Start[0].Fork != l {
		t.Fatalf("%+v", fx)
	}
	a := fx.Start[0]
	r.Prepare(now)
	second := do(Signal{Name: "go"}).Activate // another guest goes on with the workflow
	if second == nil {
		t.Fatal("no other guest")
	}
	// The commit becomes durable: the first guest is told to execute the body, and has to wait for a place while the
	// host drains.
	r.SetActive(false)
	do(Refused{Lease: second})
	do(Refused{Lease: l})
	if r.Has(a) {
		t.Error("the attempt goes on, and nobody performs it")
	}
	// Run is called again.
	r.SetActive(true)
	second = do(Due{}).Activate
	do(GuestReady{Lease: second})
	fx = do(GuestWaits{Lease: second, Suspension: store.Suspension{Seq: 5, Awaited: []int64{1}}})
	if len(fx.Start) != 1 {
		t.Errorf("%d attempts start, want the body again", len(fx.Start))
	}
}
