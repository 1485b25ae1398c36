package host_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store/postgres"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
	"github.com/wfhost/wfhost/store/transfer"
)

// TestHostGoesOnInACopy moves encrypted data from a folder into a database, and back into another folder, without its key. In each,
// a host with the key shows what it showed before, and goes on: runs wake, signals and deliveries to hooks arrive, a slot of a limit
// goes to the next run in the queue and to no other, a debounced start begins, a schedule starts its runs, an update is answered.
func TestHostGoesOnInACopy(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	now := clock.NewFake(hosttest.Epoch)
	cfg := host.Config{CacheDir: vaultCache(t), Codec: keyring(t, keyLine("k1", 1)), Clock: now}
	first, last, url := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "last"), pgtest.Fresh(t)

	cfg.Dir = first
	h, stop := vaultHostOf(t, cfg)
	workload(t, h)
	for _, name := range []string{"s01", "primitives"} {
		workflow := map[string]string{"s01": "s01", "primitives": "hooked"}[name]
		_, err := h.Upload(ctx, workflow, hosttest.Build(t, "testdata/"+name), host.AllowStep("*"))
		do(t, err)
	}
	for id, sleep := range map[string]time.Duration{"nap1": 10 * time.Minute, "nap2": 40 * time.Hour} {
		_, err := h.Start(ctx, "s01", sleep.Milliseconds(), host.WithRunID(id))
		do(t, err)
	}
	for _, id := range []string{"hook1", "hook2"} {
		_, err := h.Start(ctx, "hooked", "token-of-"+id, host.WithRunID(id))
		do(t, err)
		waitsFor(t, h, id, "delivery")
	}
	for _, id := range []string{"third", "fourth"} { // behind first and second
		_, err := h.Start(ctx, "held", map[string]string{"of": marker + "-limitkey"}, host.WithRunID(id))
		do(t, err)
		waitsFor(t, h, id, "a slot")
	}
	_, err := h.Schedules().Create(ctx, "daily", host.ScheduleSpec{Workflow: "opened", When: "@every 24h", Overlap: host.OverlapAllow})
	do(t, err)
	_, _, err = h.WaitIdle(ctx)
	do(t, err)
	want := workloadText(t, h)
	stop()

	s := func() *postgres.Store {
		from, err := host.OpenTransfer(first, false)
		do(t, err)
		to, err := postgres.OpenTransfer(ctx, url, postgres.TransferOptions{Target: true, Unsafe: true})
		do(t, err)
		_, err = transfer.Copy(ctx, from, to, transfer.Options{})
		do(t, errors.Join(err, from.Close(), to.Close()))
		if _, err := host.Open(ctx, cfg); !errors.Is(err, transfer.ErrMoved) {
			t.Error("the source:", err)
		}
		s, err := postgres.Open(ctx, url, postgres.Options{Unsafe: true})
		do(t, err)
		return s
	}()
	cfg.Dir, cfg.Store = "", s
	h, stop = vaultHostOf(t, cfg)
	if got := workloadText(t, h); got != want {
		t.Errorf("in the database, the host says\n%s, in the folder\n%s", got, want)
	}
	goesOn(t, h, now, "nap1", "hook1", []string{"first", "second", "third", "fourth"})
	_, _, err = h.WaitIdle(ctx)
	do(t, err)
	want = workloadText(t, h)
	stop()
	do(t, s.Close())

	from, err := postgres.OpenTransfer(ctx, url, postgres.TransferOptions{Unsafe: true})
	do(t, err)
	to, err := host.OpenTransfer(last, true)
	do(t, err)
	_, err = transfer.Copy(ctx, from, to, transfer.Options{})
	do(t, errors.Join(err, from.Close(), to.Close()))
	cfg.Dir, cfg.Store = last, nil
	h, stop = vaultHostOf(t, cfg)
	if got := workloadText(t, h); got != want {
		t.Errorf("in the last folder, the host says\n%s, in the database\n%s", got, want)
	}
	goesOn(t, h, now, "nap2", "hook2", []string{"second", "third", "fourth"})
	_, err = h.Update(ctx, "k", "set", marker+"-update", host.WithUpdateID(marker+"-updateid")) // the answer that it had
	do(t, err)
	stop()
	report, err := host.Verify(ctx, last, cfg, host.VerifyOptions{})
	do(t, err)
	if !report.Sound() {
		t.Errorf("%+v", report.Problems)
	}
}

// goesOn has a run that sleeps wake, a hook get a delivery, and the first run of a queue pass its slot on.
func goesOn(t *testing.T, h *host.Host, now *clock.Fake, nap, hook string, queue []string) {
	t.Helper()
	for i, id := range queue {
		if i == 0 {
			waitsFor(t, h, id, "go")
		} else {
			waitsFor(t, h, id, "a slot")
		}
	}
	do(t, h.Signal(ctx, queue[0], "go", "done"))
	waitsFor(t, h, queue[1], "go")
	_, err := h.Hooks().Deliver(ctx, "token-of-"+hook, []byte(`"delivered"`))
	do(t, err)
	if r, err := h.Wait(ctx, hook); err != nil || r.Status != host.Completed {
		t.Errorf("%s is %s %s, %v", hook, r.Status, r.Reason, err)
	}
	if r, err := h.Get(ctx, nap); err != nil || r.Status != host.Sleeping {
		t.Errorf("%s is %s %s, %v", nap, r.Status, r.Reason, err)
	}
	before, err := h.Schedules().Get(ctx, "daily")
	do(t, err)
	now.Advance(24 * time.Hour)
	for started := before.Started; started == before.Started; {
		now.Advance(time.Minute)
		_, _, err := h.WaitIdle(ctx)
		do(t, err)
		s, err := h.Schedules().Get(ctx, "daily")
		do(t, err)
		started = s.Started
	}
	if r, err := h.Wait(ctx, nap); err != nil || r.Status != host.Completed {
		t.Errorf("%s is %s %s, %v", nap, r.Status, r.Reason, err)
	}
	var gathered []host.Status
	for r, err := range h.Runs(ctx, host.Query{Workflow: "gathered"}) {
		do(t, err)
		gathered = append(gathered, r.Status)
	}
	if !slices.Equal(gathered, []host.Status{host.Waiting}) {
		t.Errorf("runs of the debounced workflow: %v, want one that waits for its signal", gathered)
	}
}
