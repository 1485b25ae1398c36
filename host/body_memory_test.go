package host_test

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
)

// little gives a host the minimum memory for guests.
func little() hosttest.Option {
	return hosttest.WithConfig(func(c *host.Config) { c.GuestBytes = 128 << 20 })
}

// other is a second namespace with the same workflows.
type other struct {
	*host.Namespace
	f *mixed
}

func (f *mixed) other() *other {
	f.t.Helper()
	ns, err := f.Namespace(ctx, "other")
	do(f.t, err)
	_, err = ns.Upload(ctx, "", hosttest.Build(f.t, "testdata/mixed"), host.AllowStep("*"))
	do(f.t, err)
	return &other{ns, f}
}

// comesTo waits until a run has a status.
func (o *other) comesTo(id string, s host.Status) {
	o.f.t.Helper()
	changed, stop := o.Watch(id)
	defer stop()
	late := time.After(20 * time.Second)
	for {
		r, err := o.Get(ctx, id)
		if do(o.f.t, err); r.Status == s {
			return
		}
		select {
		case <-changed:
		case <-late:
			o.f.t.Fatalf("run %s is %s", id, r.Status)
		}
	}
}

// goesOn checks that a run which sleeps for a millisecond wakes, and that a body of another run is executed.
func (o *other) goesOn(id string) {
	o.f.t.Helper()
	_, err := o.Start(ctx, "nap", 1, host.WithRunID("nap"+id))
	do(o.f.t, err)
	o.comesTo("nap"+id, host.Sleeping)
	o.f.Clock.Advance(time.Millisecond)
	_, err = o.Start(ctx, "crowd", map[string]int{"Bodies": 2, "Ms": 2}, host.WithRunID("crowd"+id))
	do(o.f.t, err)
	o.comesTo("nap"+id, host.Completed)
	o.comesTo("crowd"+id, host.Completed)
}

// TestNamespacesGoOnBesideBodiesThatSleep has more bodies sleep than there is memory for, in many runs or in one.
// Runs and bodies of another namespace continue.
func TestNamespacesGoOnBesideBodiesThatSleep(t *testing.T) {
	const bodies = 400
	for _, runs := range []int{bodies, 1} {
		f := newMixed(t, little())
		o := f.other()
		in := map[string]int{"Bodies": bodies / runs, "Ms": 3600_000}
		for i := range runs {
			_, err := f.Start(ctx, "crowd", in, host.WithRunID(fmt.Sprint("r", i)))
			do(t, err)
		}
		for i := range runs {
			until(t, f.Host.Host, fmt.Sprint("r", i), func(r host.Run) bool {
				return has(t, f.Host.Host, r.ID, store.KindBody) == bodies/runs
			})
		}
		for i := range 3 {
			o.goesOn(fmt.Sprint(i))
		}
		do(t, f.Terminate(ctx, "r0"))
		o.goesOn("last")
		soon(t, "Close", func() { do(t, f.Close()) })
	}
}

// TestBodiesComeToTheirEnd has one run with more concurrent bodies than there is memory for: all are executed.
func TestBodiesComeToTheirEnd(t *testing.T) {
	f := newMixed(t, little())
	_, err := f.Start(ctx, "crowd", map[string]int{"Bodies": 200, "Ms": 20}, host.WithRunID("r"))
	do(t, err)
	if r := until(t, f.Host.Host, "r", func(r host.Run) bool { return r.Status.Terminal() }); r.Status != host.Completed {
		t.Error(r.Status, r.Reason)
	}
	if s := f.Stats(); s.Waiting != 0 || s.GuestBytes != 0 {
		t.Errorf("in the end %d wait, and %d bytes are held", s.Waiting, s.GuestBytes)
	}
}

// TestBodiesInPlace executes two hundred bodies in sequence in the instance of their run. Each returns the memory
// that it used.
func TestBodiesInPlace(t *testing.T) {
	f := newMixed(t, little())
	for _, id := range []string{"r", "again"} {
		_, err := f.Start(ctx, "row", 200, host.WithRunID(id))
		do(t, err)
		if r := until(t, f.Host.Host, id, func(r host.Run) bool { return r.Status.Terminal() }); r.Status != host.Completed {
			t.Error(r.Status, r.Reason)
		}
	}
}

// heavy is fetching with the given number of MiB of memory written.
func heavy(url string, mib int64) []byte {
	head := fmt.Sprintf(`{"method":"GET","url":%q}`, url)
	request := string(binary.LittleEndian.AppendUint32(nil, uint32(len(head)))) + head
	m := wasmgen.New(2).Text("body").Text(`{"attempts":1}`).Call(abi.FnStepBegin).Set(0).Get(0).IfZero64().
		I32(int32(16*mib)).Op(0x40, 0).Drop().
		I64(1<<16).Set(1).While().Get(1).I64(mib<<20).NotLess().Break().
		Get(1).Op(0xa7).I32(1).Op(0x36, 2, 0). // i32.store at the index
		Count(1, 4096).EndWhile().
		Text(request).I32(16).I32(8).Call(abi.FnFetch).Drop().I32(0).I32(16).I32(0).Call(abi.FnStepEnd).End()
	m.I32(32).Get(0).Store64().I32(32).I32(1).Call(abi.FnAwait).Drop()
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

// TestBodiesThatGrow has bodies grow before they wait for a server. Another namespace continues while the server does
// not answer, and all bodies complete when it does.
func TestBodiesThatGrow(t *testing.T) {
	const bodies, mib = 60, 5
	asked, answer := make(chan struct{}, bodies), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-answer
	}))
	defer s.Close()
	f := newMixed(t, little())
	o := f.other()
	_, err := f.Upload(ctx, "grows", heavy(s.URL, mib), host.AllowHTTP(s.URL))
	do(t, err)
	for i := range bodies {
		_, err := f.Start(ctx, "grows", nil, host.WithRunID(fmt.Sprint("r", i)))
		do(t, err)
	}
	for i := range bodies {
		until(t, f.Host.Host, fmt.Sprint("r", i), func(r host.Run) bool { return has(t, f.Host.Host, r.ID, store.KindBody) == 1 })
	}
	<-asked
	for i := range 3 {
		o.goesOn(fmt.Sprint(i))
	}
	if n := len(asked) + 1; n == bodies {
		t.Error("all have begun")
	}
	close(answer)
	for i := range bodies {
		until(t, f.Host.Host, fmt.Sprint("r", i), func(r host.Run) bool { return r.Status == host.Completed })
	}
}
