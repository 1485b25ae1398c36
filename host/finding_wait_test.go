package host_test

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
)

type mob struct {
	Bodies, Ms, Timeout, Elapsed int
	Once, Coop                   bool
}

// waiting waits until so many bodies of a run are recorded and some of them wait.
func (f *findings) waiting(id string, n int) {
	f.t.Helper()
	until(f.t, f.Host.Host, id, func(host.Run) bool { return has(f.t, f.Host.Host, id, store.KindBody) == n })
	for range 400 {
		if f.Stats().Waiting > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	f.t.Fatal("none waits")
}

// empty checks that nothing is held, and that bodies of a new run begin, all of them.
func (f *findings) empty(id string) {
	f.t.Helper()
	for range 400 {
		if s := f.Stats(); s.Waiting == 0 && s.GuestBytes == 0 && s.Instances == 0 {
			_, err := f.Start(ctx, "mob", mob{Bodies: 80, Ms: 5}, host.WithRunID(id))
			do(f.t, err)
			f.completes(id, 1)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	s := f.Stats()
	f.t.Errorf("%s: %d wait, %d bytes are held by %d", id, s.Waiting, s.GuestBytes, s.Instances)
}

func (f *findings) completes(id string, most int) {
	f.t.Helper()
	r := until(f.t, f.Host.Host, id, func(r host.Run) bool { return r.Status.Terminal() || r.Status == host.Stuck })
	got, err := host.Result[[]int](ctx, f.Host.Host, id)
	if r.Status != host.Completed || len(got) == 0 || slices.Max(got) > most {
		f.t.Errorf("%s: %s (%s), attempts %v, %v", id, r.Status, r.Reason, got, err)
	}
}

func (f *findings) mob(id string, m mob) {
	f.t.Helper()
	_, err := f.Start(ctx, "mob", m, host.WithRunID(id))
	do(f.t, err)
}

func TestWait_Ends(t *testing.T) {
	f := newFindings(t, little())
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

func TestWait_Pause(t *testing.T) {
	f := newFindings(t, little())
	f.mob("r", mob{Bodies: 150, Ms: 300, Coop: true})
	f.waiting("r", 150)
	_, err := f.Pause(ctx, "r")
	do(t, err)
	f.Clock.Advance(1000 * time.Hour)
	_, err = f.Unpause(ctx, "r")
	do(t, err)
	_, err = f.Pause(ctx, "r")
	do(t, err)
	time.Sleep(3 * time.Second)
	_, err = f.Unpause(ctx, "r")
	do(t, err)
	f.completes("r", 1)
	f.empty("after")
}

func TestWait_Cooperative(t *testing.T) {
	f := newFindings(t, little())
	f.mob("r", mob{Bodies: 150, Ms: 300, Coop: true})
	f.waiting("r", 150)
	_, err := f.Cancel(ctx, "r")
	do(t, err)
	r := until(t, f.Host.Host, "r", func(r host.Run) bool { return r.Status.Terminal() })
	t.Log(r.Status, r.Reason)
	f.empty("after")
}

func TestWait_Timeout(t *testing.T) { // the last ones wait for longer than both
	f := newFindings(t, little())
	f.mob("r", mob{Bodies: 150, Ms: 700, Timeout: 1500})
	f.mob("s", mob{Bodies: 60, Ms: 300, Elapsed: 1})
	f.waiting("r", 150)
	f.Clock.Advance(time.Hour)
	f.completes("r", 1)
	f.completes("s", 1)
	f.empty("after")
}

func TestWait_Crash(t *testing.T) {
	for _, once := range []bool{false, true} {
		f := newFindings(t, little())
		f.mob("r", mob{Bodies: 150, Ms: 500, Once: once})
		f.waiting("r", 150)
		soon(t, "Crash", f.Crash)
		r := until(t, f.Host.Host, "r", func(r host.Run) bool { return r.Status.Terminal() || r.Status == host.Stuck })
		got, _ := host.Result[[]int](ctx, f.Host.Host, "r")
		t.Log(once, r.Status, r.Reason, got)
		n, begun := 0, 0
		for e, err := range f.Journal(ctx, "r", 0) {
			do(t, err)
			if e.Kind == store.KindAttemptStarted {
				n++
			}
			_ = begun
		}
		t.Log("attempts recorded:", n)
		f.empty("after")
	}
}

func TestWait_Stop(t *testing.T) {
	for _, once := range []bool{false, true} {
		f := newFindings(t, little())
		f.mob("r", mob{Bodies: 150, Ms: 1000, Once: once})
		f.waiting("r", 150)
		soon(t, "Reopen", f.Reopen)
		r := until(t, f.Host.Host, "r", func(r host.Run) bool { return r.Status.Terminal() || r.Status == host.Stuck })
		got, _ := host.Result[[]int](ctx, f.Host.Host, "r")
		t.Log(once, r.Status, r.Reason, got)
		f.empty("after")
	}
}

func TestWait_Default(t *testing.T) {
	f := newFindings(t)
	f.mob("r", mob{Bodies: 100, Ms: 500})
	f.completes("r", 1)
	f.mob("s", mob{Bodies: 100, Ms: 3600_000})
	for i := range 20 {
		f.mob(fmt.Sprint("x", i), mob{Bodies: 3, Ms: 5})
	}
	f.waiting("s", 100)
	soon(t, "Close", f.Stop)
}

// TestWait_Deadline has bodies wait for an hour, and then say when they time out.
func TestWait_Deadline(t *testing.T) {
	const bodies = 60
	asked, answer := make(chan struct{}, bodies), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-answer
	}))
	defer s.Close()
	f := newFindings(t, little())
	head := fmt.Sprintf(`{"method":"GET","url":%q}`, s.URL)
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
	_, err := f.Upload(ctx, "late", m.I32(0).Export(abi.ExportRun).Bytes(), host.AllowHTTP(s.URL))
	do(t, err)
	for i := range bodies {
		_, err := f.Start(ctx, "late", nil, host.WithRunID(fmt.Sprint("r", i)))
		do(t, err)
	}
	for i := range bodies {
		until(t, f.Host.Host, fmt.Sprint("r", i), func(host.Run) bool { return has(t, f.Host.Host, fmt.Sprint("r", i), store.KindBody) == 1 })
	}
	<-asked
	time.Sleep(time.Second)
	begun := len(asked) + 1
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
	t.Log("late", late, "begun", begun)
	if late > begun {
		t.Errorf("%d of %d bodies had timed out when they began by their deadline_ms; %d had begun before", late, bodies, begun)
	}
}
