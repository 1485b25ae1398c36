package host_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// service is called by a handler. It hangs while it is down, and records its calls.
type service struct {
	mu    sync.Mutex
	up    chan struct{} // closed when it is up
	calls []string      // runs and attempt numbers, in the order of answers
}

func (s *service) handle(h *host.Host) {
	host.HandleStep(h, "note", func(ctx context.Context, _ string) (string, error) {
		s.mu.Lock()
		up := s.up
		s.mu.Unlock()
		select {
		case <-up:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		i := host.StepInfo(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, fmt.Sprintf("%s #%d", i.RunID, i.Attempt))
		return "noted", nil
	})
}

// queued starts runs whose only step calls a handler while its service is down. Four calls may be in flight.
func queued(t *testing.T, n int) (*restarts, *service) {
	t.Helper()
	s := &service{up: make(chan struct{})}
	h := hosttest.New(t, hosttest.WithConfig(func(c *host.Config) { c.MaxCallsPerHandler = 4 }), hosttest.WithHandlers(s.handle))
	_, err := h.UploadAll(ctx, "", hosttest.Build(t, "testdata/restarts"), host.AllowStep("*"))
	do(t, err)
	g := &restarts{Host: h, t: t}
	for i := range n {
		_, err := h.Start(ctx, "program", []doing{{Do: "call", Name: "note"}}, host.WithRunID(fmt.Sprintf("r%02d", i)))
		do(t, err)
		g.settled(max(0, i-3))
		h.Clock.Advance(time.Millisecond)
	}
	return g, s
}

// TestRunsWaitForTheirTurnAtAHandler has more runs call a handler than it has places. They wait in order, also after
// a crash, each with its first attempt, and report what they wait for.
func TestRunsWaitForTheirTurnAtAHandler(t *testing.T) {
	for _, crash := range []bool{false, true} {
		const n = 20
		g, s := queued(t, n)
		wait := func() {
			g.eventually(func() bool { // at first their runs are kept in memory and count as running
				waiting := 0
				for i := range n {
					r, err := g.Get(ctx, fmt.Sprintf("r%02d", i))
					do(t, err)
					if r.Status == host.Waiting {
						waiting++
					}
				}
				return waiting == n-4
			})
		}
		if wait(); crash {
			g.Crash()
			wait()
		}
		for r, err := range g.Runs(ctx, host.Query{Status: host.Waiting}) {
			do(t, err)
			if r, err = g.Get(ctx, r.ID); err != nil || !strings.HasPrefix(r.Reason,
				`step "note" waits for its turn at handler "host/note": 4 calls are in flight`) {
				t.Errorf("crash %v: %s is %s: %s %v", crash, r.ID, r.Status, r.Reason, err)
			}
		}
		close(s.up)
		for i := range n {
			if r := g.Finish(fmt.Sprintf("r%02d", i)); r.Status != host.Completed {
				t.Errorf("%s: %s %s", r.ID, r.Status, r.Reason)
			}
		}
		for at, call := range s.calls {
			var i, number int
			if _, err := fmt.Sscanf(call, "r%d #%d", &i, &number); err != nil {
				t.Fatal(err)
			}
			attempt := 1
			if crash && i < 4 { // it was in flight
				attempt = 2
			}
			if number != attempt {
				t.Errorf("crash %v: call %d: %s", crash, at, call)
			}
		}
	}
}

// settled waits until so many attempts wait.
func (g *restarts) settled(waiting int) {
	g.t.Helper()
	g.eventually(func() bool { return g.Stats().Attempts == waiting })
}

// eventually waits until ok returns true while handlers hang, so that the host never settles.
func (g *restarts) eventually(is func() bool) {
	g.t.Helper()
	for range 10_000_000 {
		if is() {
			return
		}
		runtime.Gosched()
	}
	g.t.Fatal("it never is")
}

// TestControlsOfRunsThatWaitForAHandler cancels, terminates, pauses, signals and queries runs that wait for their turn.
func TestControlsOfRunsThatWaitForAHandler(t *testing.T) {
	const n = 10
	g, s := queued(t, n)
	g.settled(n - 4)
	_, err := g.Cancel(ctx, "r05")
	do(t, err)
	do(t, g.Terminate(ctx, "r06"))
	_, err = g.Pause(ctx, "r07")
	do(t, err)
	do(t, g.Signal(ctx, "r08", "x", nil))
	g.settled(n - 4 - 3)
	_, err = g.Unpause(ctx, "r07")
	do(t, err)
	g.settled(n - 4 - 2)
	close(s.up)
	for i, want := range []host.Status{host.Completed, host.Completed, host.Completed, host.Completed, host.Completed, host.Cancelled,
		host.Terminated, host.Completed, host.Completed, host.Completed} {
		if r := g.Finish(fmt.Sprintf("r%02d", i)); r.Status != want {
			t.Errorf("%s: %s %s, want %s", r.ID, r.Status, r.Reason, want)
		}
	}
	if slices.Sort(s.calls); len(s.calls) != n-2 || !strings.HasPrefix(s.calls[5], "r07 ") {
		t.Errorf("calls: %v", s.calls)
	}
}

// TestFirstAttemptsStayTheFirst pauses and unpauses a run whose step waits for its turn, and stops the host while
// others wait. None of these attempts has started.
func TestFirstAttemptsStayTheFirst(t *testing.T) {
	const n = 8
	g, s := queued(t, n)
	g.settled(n - 4)
	_, err := g.Pause(ctx, "r05")
	do(t, err)
	g.settled(n - 5)
	_, err = g.Unpause(ctx, "r05")
	do(t, err)
	g.settled(n - 4)
	g.Stop()
	g.Reopen()
	g.settled(n - 4)
	close(s.up)
	for i := range n {
		g.Finish(fmt.Sprintf("r%02d", i))
	}
	for _, call := range s.calls {
		var i, number int
		if _, err := fmt.Sscanf(call, "r%d #%d", &i, &number); err != nil || i >= 4 && number != 1 {
			t.Errorf("call %s %v", call, err)
		}
	}
}

// TestReasonsOfAHandlerRegisteredLate reads the reasons of runs that wait for a handler, before and after it is
// registered.
func TestReasonsOfAHandlerRegisteredLate(t *testing.T) {
	for _, c := range []struct {
		perHandler, all int
		why             string
	}{
		{2, 3, "2 calls are in flight"},
		{4, 2, "2 calls of all handlers are in flight"},
	} {
		h := hosttest.New(t, hosttest.WithConfig(func(cfg *host.Config) { cfg.MaxCallsPerHandler, cfg.MaxCalls = c.perHandler, c.all }))
		_, err := h.UploadAll(ctx, "", hosttest.Build(t, "testdata/restarts"), host.AllowStep("*"))
		do(t, err)
		g := &restarts{Host: h, t: t}
		reasons := func() (list []string) {
			for i := range 4 {
				r, err := g.Get(ctx, fmt.Sprint("r", i))
				do(t, err)
				if r.Status == host.Waiting {
					list = append(list, strings.Replace(r.Reason, "its step waits", `step "note" waits`, 1)) // if its state is older
				}
			}
			slices.Sort(list)
			return list
		}
		for i := range 4 {
			_, err := h.Start(ctx, "program", []doing{{Do: "call", Name: "note"}}, host.WithRunID(fmt.Sprint("r", i)))
			do(t, err)
		}
		h.Settle()
		if got, want := reasons(), slices.Repeat([]string{`handler "host/note" is not registered here`}, 4); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		up := make(chan struct{})
		host.HandleStep(h.Host, "note", func(ctx context.Context, _ string) (string, error) {
			select {
			case <-up:
			case <-ctx.Done():
			}
			return "", nil
		})
		of := `step "note" waits for its turn at handler "host/note": ` + c.why
		want := []string{of, of + ", and 1 attempt waits before it"}
		g.eventually(func() bool { return h.Stats().Attempts == 2 && slices.Equal(reasons(), want) }) // all ask again at first
		close(up)
	}
}

// TestNamelessHandler calls the handler "host/", which cannot be registered: the run waits, and the host continues.
func TestNamelessHandler(t *testing.T) {
	h := hosttest.New(t)
	_, err := h.UploadAll(ctx, "", hosttest.Build(t, "testdata/restarts"), host.AllowStep("*"))
	do(t, err)
	_, err = h.Start(ctx, "program", []doing{{Do: "nameless", Name: "x"}}, host.WithRunID("r"))
	do(t, err)
	h.Settle()
	r, err := h.Get(ctx, "r")
	do(t, err)
	if r.Status != host.Waiting || r.Reason != `handler "host/" is not registered here` {
		t.Errorf("%s %s", r.Status, r.Reason)
	}
}
