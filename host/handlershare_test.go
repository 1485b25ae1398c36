package host_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// stuckCalls is a host whose handler "charge" hangs for one namespace.
type stuckCalls struct {
	*hosttest.Host
	t   *testing.T
	of  string        // as StepInfo says it
	one chan struct{} // lets one call return

	mu          sync.Mutex
	going, most int // calls that do not return
}

func newStuckCalls(t *testing.T, of string) *stuckCalls {
	x := &stuckCalls{t: t, of: of, one: make(chan struct{})}
	x.Host = hosttest.New(t, hosttest.WithHandlers(func(h *host.Host) { host.HandleStep(h, "charge", x.charge) }))
	return x
}

func (x *stuckCalls) charge(ctx context.Context, _ any) (any, error) {
	if host.StepInfo(ctx).Namespace != x.of {
		return "ok", nil
	}
	x.count(1)
	defer x.count(-1)
	select {
	case <-x.one:
		return "ok", nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (x *stuckCalls) count(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.going += n
	x.most = max(x.most, x.going)
}

// upload makes the namespace.
func (x *stuckCalls) upload(name string) *host.Namespace {
	x.t.Helper()
	ns, err := x.Namespace(ctx, name)
	do(x.t, err)
	m := wasmgen.New(0).Text("pay").Text("host/charge").Text("1").I32(0).I32(0).I32(0).I32(0).Call(abi.FnStepDo).Drop()
	_, err = ns.Upload(ctx, "pays", m.I32(0).Export(abi.ExportRun).Bytes(), host.AllowStep("charge"))
	do(x.t, err)
	return ns
}

func (x *stuckCalls) start(ns *host.Namespace, n int) {
	x.t.Helper()
	for i := range n {
		_, err := ns.StartRaw(ctx, "pays", nil, host.WithRunID(fmt.Sprint("r", i)))
		do(x.t, err)
	}
}

// atMost checks the maximum number of hanging calls.
func (x *stuckCalls) atMost(n int) {
	x.t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.most != n {
		x.t.Errorf("the handler was called %d times at once by those for which it does not return, want %d", x.most, n)
	}
}

// inside waits until the given number of calls hang.
func (x *stuckCalls) inside(n int) {
	x.t.Helper()
	comesTo(x.t, &x.mu, &x.going, n, "calls that do not return")
}

// ends waits until runs have completed.
func (x *stuckCalls) ends(ns *host.Namespace, n int) {
	x.t.Helper()
	for i := range n {
		deadline, cancel := context.WithTimeout(ctx, 20*time.Second)
		r, err := ns.Wait(deadline, fmt.Sprint("r", i))
		cancel()
		if err != nil || r.Status != host.Completed {
			x.t.Fatalf("run %d of %d, whose handler returns: %s %v", i+1, n, r.Status, err)
		}
	}
}

// TestStuckCalls has a handler hang for a hundred runs of one namespace. They get half of the handler's places, and
// runs of another namespace continue: whichever of the two is the default namespace, and also if the other one
// existed before the host was opened.
func TestStuckCalls(t *testing.T) {
	for _, names := range [][2]string{{"default", "b"}, {"a", "b"}, {"a", "default"}} {
		of := names[0]
		if of == "default" {
			of = ""
		}
		x := newStuckCalls(t, of)
		x.upload(names[0])
		x.upload(names[1])
		x.Reopen()
		stuck, err := x.Namespace(ctx, names[0])
		do(t, err)
		x.start(stuck, 100)
		x.inside(32)
		other, err := x.Namespace(ctx, names[1])
		do(t, err)
		x.start(other, 100)
		x.ends(other, 100)
		x.atMost(32)
	}
}

// TestStuckCallsOfOneNamespace has a handler hang for the only namespace, which holds all places. A second namespace
// gets the next free place.
func TestStuckCallsOfOneNamespace(t *testing.T) {
	x := newStuckCalls(t, "")
	stuck := x.upload("default")
	x.start(stuck, 100)
	x.inside(64)
	other := x.upload("b")
	x.start(other, 10)
	x.one <- struct{}{}
	x.ends(other, 10)
	x.inside(63)
	x.atMost(64)
}
