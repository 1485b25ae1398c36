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
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
)

// fetching is a workflow with a body that makes a request.
func fetching(url string) []byte {
	head := fmt.Sprintf(`{"method":"GET","url":%q}`, url)
	request := string(binary.LittleEndian.AppendUint32(nil, uint32(len(head)))) + head
	m := wasmgen.New(1).Text("body").Text(`{"attempts":1}`).Call(abi.FnStepBegin).Set(0).Get(0).IfZero64().
		Text(request).I32(16).I32(8).Call(abi.FnFetch).Drop().I32(0).I32(16).I32(0).Call(abi.FnStepEnd).End()
	m.I32(32).Get(0).Store64().I32(32).I32(1).Call(abi.FnAwait).Drop()
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

// naps checks that a run which sleeps for a millisecond is not delayed.
func (f *mixed) naps(id string) {
	f.t.Helper()
	_, err := f.Start(ctx, "nap", 1, host.WithRunID(id))
	do(f.t, err)
	until(f.t, f.Host.Host, id, func(r host.Run) bool { return r.Status == host.Sleeping })
	f.Clock.Advance(time.Millisecond)
	until(f.t, f.Host.Host, id, func(r host.Run) bool { return r.Status == host.Completed })
}

// TestRunsGoOnBesideBodiesThatSleep has many bodies sleep while other runs continue.
func TestRunsGoOnBesideBodiesThatSleep(t *testing.T) {
	f := newMixed(t)
	for n, until100 := 0, 100; n < until100; {
		for range map[bool]int{true: 8, false: until100 - 8}[n == 0] {
			_, err := f.Start(ctx, "waits", 0, host.WithRunID(fmt.Sprint("body", n)))
			do(t, err)
			n++
		}
		for i := range n {
			until(t, f.Host.Host, fmt.Sprint("body", i), func(r host.Run) bool { return has(t, f.Host.Host, r.ID, store.KindBody) > 0 })
		}
		for i := range 3 { // whether or not all bodies sleep yet
			f.naps(fmt.Sprint("nap", n, ".", i))
		}
	}
	soon(t, "Close", func() { do(t, f.Close()) })
}

// TestBodiesThatFetch has many bodies wait for a server while other runs continue.
func TestBodiesThatFetch(t *testing.T) {
	const bodies = 100
	asked, answer := make(chan struct{}, bodies), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-answer
	}))
	defer s.Close()
	f := newMixed(t)
	_, err := f.Upload(ctx, "fetches", fetching(s.URL), host.AllowHTTP(s.URL))
	do(t, err)
	for i := range bodies {
		_, err := f.Start(ctx, "fetches", nil, host.WithRunID(fmt.Sprint("body", i)))
		do(t, err)
		<-asked
		if i == 7 || i == bodies-1 {
			f.naps(fmt.Sprint("nap", i))
		}
	}
	close(answer)
	for i := range bodies {
		until(t, f.Host.Host, fmt.Sprint("body", i), func(r host.Run) bool { return r.Status == host.Completed })
	}
}

// TestRetryBesideABody retries a step while the body of another step runs: in the workflow's own instance, and in a
// copy.
func TestRetryBesideABody(t *testing.T) {
	c := &countingClock{Fake: clock.NewFake(hosttest.Epoch)}
	k := newClocked(t, c, c.Fake)
	k.fails.Store(2)
	_, err := k.Start(ctx, "beside", 0, host.WithRunID("r"))
	do(t, err)
	until(t, k.Host, "r", func(host.Run) bool { return has(t, k.Host, "r", store.KindAttemptFailed) == 1 })
	c.Advance(time.Second)
	until(t, k.Host, "r", func(host.Run) bool { return has(t, k.Host, "r", store.KindBody) == 1 })
	quiet(t, c, k.Host)
	c.Advance(59 * time.Second)
	until(t, k.Host, "r", func(host.Run) bool { return has(t, k.Host, "r", store.KindAttemptFailed) == 2 })
	quiet(t, c, k.Host)
	c.Advance(2 * time.Minute)
	until(t, k.Host, "r", func(r host.Run) bool { return r.Output == 1 }) // the workflow goes on, too
	quiet(t, c, k.Host)
	if n := k.tries.Load(); n != 3 {
		t.Errorf("%d attempts", n)
	}
	do(t, k.Terminate(ctx, "r"))
}

// has returns the number of entries of a kind in a run's journal.
func has(t *testing.T, h *host.Host, id string, kind store.Kind) (n int) {
	t.Helper()
	for e, err := range h.Journal(ctx, id, 0) {
		do(t, err)
		if e.Kind == kind {
			n++
		}
	}
	return n
}
