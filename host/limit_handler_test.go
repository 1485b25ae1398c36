package host_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// charged is a host with the workflows "a" and "b", which charge a customer of their name, and "nap", which sleeps
// for a minute between two charges.
type charged struct {
	*hosttest.Host
	t *testing.T

	mu    sync.Mutex
	at    map[string][]time.Time // attempts by workflow
	going int
	most  int
	hold  chan struct{} // if not nil, an attempt receives from it before it ends
}

func chargeText(m *wasmgen.Module, step, customer, options string) *wasmgen.Module {
	return m.Text(step).Text("host/charge").Text(fmt.Sprintf(`{"customer":%q}`, customer)).Text(options).I32(0).I32(0).
		Call(abi.FnStepDo).Drop()
}

func newCharged(t *testing.T, hold bool, opts ...hosttest.Option) *charged {
	x := &charged{t: t, at: map[string][]time.Time{}}
	if hold {
		x.hold = make(chan struct{}, 1000)
	}
	opts = append(opts, hosttest.WithHandlers(func(h *host.Host) { host.HandleStep(h, "charge", x.charge) }))
	x.Host = hosttest.New(t, opts...)
	for _, name := range []string{"a", "b"} {
		_, err := x.Upload(ctx, name, chargeText(wasmgen.New(0), "pay", name, `{"attempts":3}`).I32(0).Export(abi.ExportRun).Bytes(),
			host.AllowStep("charge"))
		do(t, err)
	}
	m := chargeText(wasmgen.New(0), "one", "nap", "").Text("nap").Text("1m").Call(abi.FnSleepText).Drop()
	_, err := x.Upload(ctx, "nap", chargeText(m, "two", "nap", "").I32(0).Export(abi.ExportRun).Bytes(), host.AllowStep("charge"))
	do(t, err)
	once := chargeText(wasmgen.New(0), "pay", "once", `{"at_most_once":true,"attempts":3}`).I32(0).Export(abi.ExportRun).Bytes()
	_, err = x.Upload(ctx, "once", once, host.AllowStep("charge"))
	do(t, err)
	return x
}

func (x *charged) charge(ctx context.Context, _ any) (any, error) {
	x.mu.Lock()
	of := host.StepInfo(ctx).Workflow
	x.at[of] = append(x.at[of], x.Clock.Now())
	x.going++
	x.most = max(x.most, x.going)
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		x.going--
		x.mu.Unlock()
	}()
	if x.hold != nil {
		select {
		case <-x.hold:
		case <-ctx.Done():
			return nil, host.RetryAfter(ctx.Err(), 0)
		}
	}
	return "ok", nil
}

func (x *charged) limit(concurrency, rate string) {
	x.t.Helper()
	l := host.HandlerLimit{Handler: "charge"}
	if concurrency != "" {
		l.Concurrency = strings.Split(concurrency, "|")
	}
	if rate != "" {
		l.Rate = strings.Split(rate, "|")
	}
	_, err := x.HandlerLimits().Set(ctx, l)
	do(x.t, err)
}

func (x *charged) start(workflow string, n int) {
	x.t.Helper()
	for i := range n {
		_, err := x.StartRaw(ctx, workflow, nil, host.WithRunID(fmt.Sprint(workflow, i)))
		do(x.t, err)
	}
}

// come waits until the given numbers of attempts hold a slot and wait for one.
func (x *charged) come(holding, waiting int) {
	x.t.Helper()
	x.comeTo("charge", holding, waiting)
}

func (x *charged) comeTo(handler string, holding, waiting int) {
	x.t.Helper()
	deadline, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		l, err := x.HandlerLimits().Get(ctx, handler)
		do(x.t, err)
		if l.Holding == holding && l.Waiting == waiting {
			return
		}
		if deadline.Err() != nil {
			x.t.Fatalf("%d hold a slot and %d wait, want %d and %d", l.Holding, l.Waiting, holding, waiting)
		}
		runtime.Gosched()
	}
}

// inside waits until n attempts with a slot are executing their handler.
func (x *charged) inside(n int) {
	x.t.Helper()
	comesTo(x.t, &x.mu, &x.going, n, "attempts within their handler")
}

// comesTo waits until *number, which mu guards, is n. what describes the number in the error.
func comesTo(t *testing.T, mu sync.Locker, number *int, n int, what string) {
	t.Helper()
	deadline, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		mu.Lock()
		is := *number
		mu.Unlock()
		if is == n {
			return
		}
		if deadline.Err() != nil {
			t.Fatalf("%d %s, want %d", is, what, n)
		}
		runtime.Gosched()
	}
}

// count returns the number of attempts of a workflow.
func (x *charged) count(workflow string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.at[workflow])
}

func (x *charged) completed(n int) {
	x.t.Helper()
	all, err := collect(x.Runs(ctx, host.Query{Status: host.Completed}))
	do(x.t, err)
	want(x.t, len(all), n)
}

// TestHandlerConcurrency has attempts wait for each other, across a crash and a restart.
func TestHandlerConcurrency(t *testing.T) {
	x := newCharged(t, true)
	x.limit("2", "")
	x.start("a", 5)
	x.come(2, 3)
	r, err := x.Get(ctx, "a4")
	do(t, err)
	if want := `step "pay" waits for a slot of handler "host/charge", whose limit is 2; 2 other attempts wait`; r.Reason != want {
		t.Errorf("%v, %q, want %q", r.Status, r.Reason, want)
	}
	x.hold <- struct{}{}
	x.come(2, 2)
	waiting := 0
	for i := range 5 {
		r, err := x.Get(ctx, fmt.Sprint("a", i))
		do(t, err)
		if strings.HasSuffix(r.Reason, "whose limit is 2; 1 other attempt waits") {
			waiting++
		}
	}
	want(t, waiting, 2)
	for done := 0; done == 0; { // its outcome is durable
		all, err := collect(x.Runs(ctx, host.Query{Status: host.Completed}))
		do(t, err)
		done = len(all)
		runtime.Gosched()
	}
	x.Crash()
	x.come(2, 2)
	x.Reopen()
	x.come(2, 2)
	x.limit("3", "")
	x.come(3, 1)
	x.inside(3)
	_, err = x.Cancel(ctx, "a4")
	do(t, err)
	for range 5 {
		x.hold <- struct{}{}
	}
	x.Settle()
	x.come(0, 0)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.most != 3 {
		t.Errorf("%d attempts at a time", x.most)
	}
}

// A run that sleeps between its steps holds no slot.
func TestHandlerSlotIsOfAnAttempt(t *testing.T) {
	x := newCharged(t, false)
	x.limit("1", "")
	x.start("nap", 3)
	x.Settle()
	x.come(0, 0)
	want(t, x.count("nap"), 3)
	x.Advance(time.Minute)
	want(t, x.count("nap"), 6)
	x.completed(3)
}

// TestHandlerLimitKeys limits the attempts per customer, and starts all when the limits are removed.
func TestHandlerLimitKeys(t *testing.T) {
	x := newCharged(t, true)
	x.limit("1 per input.customer|5", "")
	x.start("a", 3)
	x.start("b", 2)
	x.come(2, 3)
	r, err := x.Get(ctx, "b1")
	do(t, err)
	if !strings.Contains(r.Reason, "whose limit is 1 per input.customer") {
		t.Error(r.Reason)
	}
	x.limit("2 per input.customer|3", "")
	x.come(3, 2)
	do(t, x.HandlerLimits().Delete(ctx, "charge"))
	for x.count("a")+x.count("b") < 5 {
		runtime.Gosched()
	}
	for range 5 {
		x.hold <- struct{}{}
	}
	x.Settle()
	x.completed(5)
	if err := x.HandlerLimits().Delete(ctx, "charge"); !errors.Is(err, host.ErrNotFound) {
		t.Error(err)
	}
}

// TestHandlerRate starts a limited number of attempts per window; a crash does not add one.
func TestHandlerRate(t *testing.T) {
	x := newCharged(t, false)
	x.limit("", "2/10m per input.customer")
	x.start("a", 5)
	x.start("b", 1)
	x.Settle()
	want(t, x.count("a"), 2)
	want(t, x.count("b"), 1)
	x.come(0, 3)
	x.Advance(9 * time.Minute)
	x.Crash()
	x.Settle()
	want(t, x.count("a"), 2)
	x.Advance(time.Minute)
	want(t, x.count("a"), 4)
	x.Reopen()
	x.Advance(10 * time.Minute)
	want(t, x.count("a"), 5)
	x.completed(6)
	x.Advance(20 * time.Minute)
	if next, ok := x.Settle(); ok {
		t.Errorf("something is due at %v", next)
	}
}

// TestHandlerRateCrashes crashes at commits: the rate is never exceeded, and all runs end.
func TestHandlerRateCrashes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	x := newCharged(t, false)
	x.limit("3", "4/5m per input.customer|6/5m")
	x.start("a", 20)
	x.start("b", 20)
	crashes := 0
	for {
		if rng.IntN(2) == 0 {
			x.CrashAt(rng.IntN(8), rng.IntN(2) == 0)
		}
		next, ok := x.Settle()
		if x.Crashed() {
			crashes++
			x.Reopen()
			continue
		}
		if !ok {
			break
		}
		x.Clock.Set(next)
	}
	x.Reopen()
	x.Settle()
	x.completed(40)
	t.Logf("%d crashes, %v of virtual time", crashes, x.Clock.Now().Sub(hosttest.Epoch))
	if crashes < 3 {
		t.Errorf("only %d crashes", crashes)
	}
	for name, most := range map[string]int{"a": 4, "b": 4, "": 6} {
		at := x.at[name]
		if name == "" {
			at = slices.Concat(x.at["a"], x.at["b"])
			slices.SortFunc(at, time.Time.Compare)
		}
		for i := most; i < len(at); i++ {
			if d := at[i].Sub(at[i-most]); d < 5*time.Minute {
				t.Errorf("%d attempts of %q within %v", most+1, name, d)
			}
		}
	}
}

// Attempts by workers count from the time when they are offered.
func TestHandlerLimitsOfWorkers(t *testing.T) {
	x := newCharged(t, false)
	do(t, x.HandleRemote("charge"))
	x.limit("1", "")
	x.start("a", 2)
	x.come(1, 1)
	for n := range 2 {
		list, err := x.Attempts().Take(ctx, "charge", host.TakeOptions{Max: 10, Wait: 10 * time.Second})
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		x.come(1, 1-n)
		do(t, x.Attempts().Complete(ctx, "charge", list[0].Lease, []byte(`"ok"`)))
	}
	x.Settle()
	x.completed(2)
}

// TestLimitsOfAHandlerThatIsNotThereYet has attempts wait for a handler that is registered after its limits were set.
func TestLimitsOfAHandlerThatIsNotThereYet(t *testing.T) {
	x := newCharged(t, true)
	late := chargeText(wasmgen.New(0), "pay", "late", "").I32(0).Export(abi.ExportRun).Bytes()
	_, err := x.Upload(ctx, "late", []byte(strings.ReplaceAll(string(late), "host/charge", "host/latest")), host.AllowStep("latest"))
	do(t, err)
	_, err = x.HandlerLimits().Set(ctx, host.HandlerLimit{Handler: "latest", Concurrency: []string{"2"}})
	do(t, err)
	x.start("late", 5)
	x.Settle()
	r, err := x.Get(ctx, "late1")
	do(t, err)
	if r.Status != host.Waiting || r.Reason != `handler "host/latest" is not registered here` {
		t.Errorf("%s: %s", r.Status, r.Reason)
	}
	host.HandleStep(x.Host.Host, "latest", x.charge)
	x.comeTo("latest", 2, 3)
	x.inside(2)
	for range 5 {
		x.hold <- struct{}{}
	}
	x.Settle()
	x.completed(5)
	want(t, x.most, 2)
}

// A stopping host gives up waiting attempts. They start after the next start of the host, also if they must be made
// at most once.
func TestHandlerLimitsWhenTheHostStops(t *testing.T) {
	x := newCharged(t, true, hosttest.WithConfig(func(c *host.Config) { c.Drain = 300 * time.Millisecond }))
	x.limit("1", "")
	x.start("a", 1)
	x.come(1, 0)
	x.start("once", 1)
	x.come(1, 1)
	x.Reopen()
	x.come(1, 1)
	x.hold <- struct{}{}
	x.hold <- struct{}{}
	x.Finish("a0")
	r := x.Finish("once0")
	want(t, r.Status, host.Completed)
	want(t, x.count("once"), 1)
}

func TestWrongHandlerLimits(t *testing.T) {
	x := newCharged(t, false)
	for _, l := range []host.HandlerLimit{{Handler: "charge"}, {Concurrency: []string{"1"}},
		{Handler: "host/charge", Concurrency: []string{"1"}}, {Handler: "charge", Rate: []string{"5"}},
		{Handler: "charge", Concurrency: []string{"1 per customer"}}} {
		if _, err := x.HandlerLimits().Set(ctx, l); !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if _, err := x.HandlerLimits().Get(ctx, "charge"); !errors.Is(err, host.ErrNotFound) {
		t.Error(err)
	}
}

// TestSchedulePriority: the run of a schedule with a priority starts before others that wait.
func TestSchedulePriority(t *testing.T) {
	h := newPrinted(t)
	h.limit("1", "")
	h.start("0", "{}")
	h.start("1", "{}")
	spec := host.ScheduleSpec{Workflow: "print", When: "@every 30s", Runs: 1, Priority: 7}
	s, err := h.Schedules().Create(ctx, "often", spec)
	do(t, err)
	want(t, s.Spec.Priority, 7)
	h.Advance(31 * time.Second)
	h.Crash()
	h.Advance(30 * time.Second)
	s, err = h.Schedules().Get(ctx, "often")
	do(t, err)
	h.stand(s.Recent[0].Run, "1")
	spec.Priority = host.MaxPriority + 1
	if _, err := h.Schedules().Update(ctx, "often", spec); !errors.Is(err, host.ErrInvalid) {
		t.Error(err)
	}
}

// TestScheduleQuota refuses a schedule beyond the quota, and accepts another one after one was deleted.
func TestScheduleQuota(t *testing.T) {
	h := newPrinted(t)
	do(t, h.SetQuota(ctx, "default", host.Quota{MaxSchedules: 2}))
	create := func(id string) error {
		_, err := h.Schedules().Create(ctx, id, host.ScheduleSpec{Workflow: "print", When: "@hourly"})
		return err
	}
	do(t, create("a"))
	do(t, create("b"))
	h.Reopen()
	if err := create("c"); !errors.Is(err, host.ErrBusy) || !strings.Contains(err.Error(), "its quota is 2") {
		t.Error(err)
	}
	if err := create("a"); !errors.Is(err, host.ErrConflict) {
		t.Error(err)
	}
	do(t, h.Schedules().Delete(ctx, "a"))
	do(t, create("c"))
	if err := h.SetQuota(ctx, "default", host.Quota{MaxSchedules: -1}); !errors.Is(err, host.ErrInvalid) {
		t.Error(err)
	}
}

// slowSchedules is a store that blocks when it lists the schedules of the default namespace.
type slowSchedules struct {
	store.Store
	asked, goOn chan struct{}
}

func (s *slowSchedules) Schedules(ctx context.Context, q store.ScheduleQuery) ([]store.Schedule, error) {
	if q.Namespace == 0 {
		s.asked <- struct{}{}
		<-s.goOn
	}
	return s.Store.Schedules(ctx, q)
}

// TestScheduleQuotaWaits blocks the creation of a schedule under a quota: another namespace does not wait for it, and
// a caller can stop waiting.
func TestScheduleQuotaWaits(t *testing.T) {
	slow := &slowSchedules{asked: make(chan struct{}, 1), goOn: make(chan struct{})}
	h := newPrinted(t, hosttest.WithStore(func() store.Store {
		slow.Store = memstore.New().Open()
		return slow
	}))
	other, err := h.Namespace(ctx, "other")
	do(t, err)
	for _, name := range []string{"default", "other"} {
		do(t, h.SetQuota(ctx, name, host.Quota{MaxSchedules: 2}))
	}
	spec := host.ScheduleSpec{Workflow: "print", When: "@hourly"}
	made, gone := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := h.Schedules().Create(ctx, "a", spec)
		made <- err
	}()
	<-slow.asked
	leaving, leave := context.WithCancel(ctx)
	go func() {
		_, err := h.Schedules().Create(leaving, "b", spec)
		gone <- err
	}()
	_, err = other.Schedules().Create(ctx, "c", spec)
	do(t, err)
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(slow.goOn)
	do(t, <-made)
}
