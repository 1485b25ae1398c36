package host_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
)

// mob is the input of the workflow "mob": the number of concurrent bodies, and for how many milliseconds each sleeps.
type mob struct {
	Bodies, Ms, Timeout, Elapsed int
}

// waiting waits until the given number of bodies of a run is recorded and some of them wait.
func (f *mixed) waiting(id string, n int) {
	f.t.Helper()
	until(f.t, f.Host.Host, id, func(host.Run) bool { return has(f.t, f.Host.Host, id, store.KindBody) == n })
	f.comes("none waits", func(s host.Stats) bool { return s.Waiting > 0 })
}

// comes waits until ok returns true for the host's statistics.
func (f *mixed) comes(otherwise string, ok func(host.Stats) bool) {
	f.t.Helper()
	deadline, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for !ok(f.Stats()) {
		if deadline.Err() != nil {
			f.t.Fatalf("%s: %+v", otherwise, f.Stats())
		}
		runtime.Gosched()
	}
}

// empty checks that no memory or instance is held, and that all bodies of a new run start.
func (f *mixed) empty(id string) {
	f.t.Helper()
	f.comes("something is held", func(s host.Stats) bool { return s.Waiting == 0 && s.GuestBytes == 0 && s.Instances == 0 })
	f.mob(id, mob{Bodies: 80, Ms: 5})
	f.completes(id, 1)
}

// completes checks that a run completes, and that no body had more than most attempts.
func (f *mixed) completes(id string, most int) {
	f.t.Helper()
	r := until(f.t, f.Host.Host, id, func(r host.Run) bool { return r.Status.Terminal() || r.Status == host.Stuck })
	got, err := host.Result[[]int](ctx, f.Host.Host, id)
	if r.Status != host.Completed || len(got) == 0 || slices.Max(got) > most {
		f.t.Errorf("%s: %s (%s), attempts %v, %v", id, r.Status, r.Reason, got, err)
	}
}

func (f *mixed) mob(id string, m mob) {
	f.t.Helper()
	_, err := f.Start(ctx, "mob", m, host.WithRunID(id))
	do(f.t, err)
}

// TestRunsEndWhileBodiesWait ends runs in every way while their bodies wait to start. Afterwards no memory or
// instance is held.
func TestRunsEndWhileBodiesWait(t *testing.T) {
	f := newMixed(t, little())
	for name, end := range map[string]func() error{
		"cancel":    func() error { _, err := f.Cancel(ctx, "cancel"); return err },
		"terminate": func() error { return f.Terminate(ctx, "terminate") },
		"delete": func() error {
			if err := f.Terminate(ctx, "delete"); err != nil {
				return err
			}
			return f.Delete(ctx, "delete")
		},
		"restart": func() error {
			if err := f.Terminate(ctx, "restart"); err != nil {
				return err
			}
			_, err := f.Restart(ctx, "restart", "restarted", "")
			if err == nil {
				err = f.Terminate(ctx, "restarted")
			}
			return err
		},
	} {
		f.mob(name, mob{Bodies: 120, Ms: 3600_000})
		f.waiting(name, 120)
		do(t, end())
		f.empty("after" + name)
	}
}

// TestTimeoutsBeginWithTheBody has bodies wait for longer than the timeout of their steps: the timeout counts from
// the start of the body. In the meantime bodies that sleep for an hour hold all the memory. Timeouts are in real
// time, and long enough for a slow machine.
func TestTimeoutsBeginWithTheBody(t *testing.T) {
	const timeout = 5 * time.Second
	f := newMixed(t, little())
	f.mob("held", mob{Bodies: 120, Ms: 3600_000})
	f.waiting("held", 120)
	f.mob("r", mob{Bodies: 40, Ms: 1, Timeout: int(timeout.Milliseconds())})
	f.mob("s", mob{Bodies: 40, Ms: 1, Elapsed: 1})
	f.waiting("r", 40)
	f.waiting("s", 40)
	<-time.After(timeout + time.Second)
	f.Clock.Advance(time.Hour)
	for _, id := range []string{"r", "s"} {
		if r, err := f.Get(ctx, id); err != nil || r.Status.Terminal() {
			t.Fatalf("%s did not wait: %s, %v", id, r.Status, err)
		}
	}
	do(t, f.Terminate(ctx, "held"))
	f.completes("r", 1)
	f.completes("s", 1)
	f.empty("after")
}

// fetchingLarge is a workflow with a body that takes 5 MiB of memory, makes a request, and reports its deadline.
func fetchingLarge(url string) []byte {
	head := fmt.Sprintf(`{"method":"GET","url":%q}`, url)
	request := string(binary.LittleEndian.AppendUint32(nil, uint32(len(head)))) + head
	m := wasmgen.New(2).Text("body").Text(`{"attempts":1,"timeout":"1m"}`).Call(abi.FnStepBegin).Set(0).Get(0).IfZero64().
		I32(16*5).Op(0x40, 0).Drop().
		I64(1<<17).Set(1).While().Get(1).I64(5<<20).NotLess().Break().
		Get(1).Op(0xa7).I32(1).Op(0x36, 2, 0).
		Count(1, 4096).EndWhile().
		Text(request).I32(16).I32(8).Call(abi.FnFetch).Drop().
		I32(60000).I32(4096).Call(abi.FnInfo).Set(1).
		I32(1).I32(60000).Get(1).Op(0xa7).Call(abi.FnStepEnd).End()
	m.I32(32).Get(0).Store64().I32(32).I32(1).Call(abi.FnAwait).Drop()
	return m.I32(0).Export(abi.ExportRun).Bytes()
}

// TestDeadlinesOfBodiesThatWaited has bodies wait for an hour and then report their deadlines. Only few of them have
// started earlier.
func TestDeadlinesOfBodiesThatWaited(t *testing.T) {
	const bodies = 60
	asked, answer := make(chan struct{}, bodies), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-answer
	}))
	defer s.Close()
	f := newMixed(t, little())
	_, err := f.Upload(ctx, "late", fetchingLarge(s.URL), host.AllowHTTP(s.URL))
	do(t, err)
	for i := range bodies {
		_, err := f.Start(ctx, "late", nil, host.WithRunID(fmt.Sprint("r", i)))
		do(t, err)
	}
	for i := range bodies {
		until(t, f.Host.Host, fmt.Sprint("r", i), func(host.Run) bool { return has(t, f.Host.Host, fmt.Sprint("r", i), store.KindBody) == 1 })
	}
	<-asked
	f.Clock.Advance(time.Hour)
	now := f.Clock.Now().UnixMilli()
	close(answer)
	late := 0
	for i := range bodies {
		id := fmt.Sprint("r", i)
		until(t, f.Host.Host, id, func(r host.Run) bool { return r.Status.Terminal() })
		for e, err := range f.Journal(ctx, id, 0) {
			do(t, err)
			if _, b, ok := strings.Cut(strings.ReplaceAll(fmt.Sprintf("%s", e.Data), `\"`, `"`), `"deadline_ms":`); ok {
				var deadline int64
				if _, err := fmt.Sscan(b[:13], &deadline); err != nil || deadline >= now {
					continue
				}
				late++
			}
		}
	}
	if late > bodies/2 {
		t.Errorf("%d of %d bodies had timed out when they began, by their deadline_ms", late, bodies)
	}
}

// TestManyRunsWaitForABody has many runs come to a body each while there is no memory for one: they wait as keys, and not with a
// goroutine and their journal, and complete in the end.
func TestManyRunsWaitForABody(t *testing.T) {
	const runs = 1000
	f := newMixed(t, little())
	f.mob("held", mob{Bodies: 120, Ms: 3600_000})
	f.waiting("held", 120)
	before := runtime.NumGoroutine()
	for i := range runs {
		f.mob(fmt.Sprint("r", i), mob{Bodies: 1, Ms: 1})
	}
	f.comes("most do not wait as keys", func(s host.Stats) bool { return s.Attempts >= runs-200 })
	if n := runtime.NumGoroutine() - before; n > 250 {
		t.Errorf("%d goroutines for %d runs", n, runs)
	}
	do(t, f.Terminate(ctx, "held"))
	for i := range runs {
		f.completes(fmt.Sprint("r", i), 1)
	}
}
