package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store/memstore"
)

func ExampleHost_Signal() {
	ctx := context.Background()
	var h *host.Host // from Open
	err := h.Signal(ctx, "order-42", "approved", map[string]string{"by": "ada"}, host.WithIdempotencyKey("mail-7"))
	switch {
	case errors.Is(err, host.ErrTerminal):
		log.Println("the run has ended")
	case err != nil:
		log.Fatal(err)
	}
}

func ExampleHost_Update() {
	ctx := context.Background()
	var h *host.Host // from Open
	u, err := h.Update(ctx, "cart-7", "add", map[string]any{"Name": "pen", "Count": 2}, host.WithUpdateID("click-1"))
	if e, ok := errors.AsType[*host.UpdateError](err); ok {
		log.Fatalf("the workflow refused or failed it: %v", e)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", u.Result)
}

func ExampleHost_Query() {
	ctx := context.Background()
	var h *host.Host // from Open
	answer, err := h.Query(ctx, "order-42", "status", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", answer)
}

func ExampleHooks_Deliver() {
	ctx := context.Background()
	var h *host.Host // from Open
	reply, err := h.Hooks().Deliver(ctx, "the-token-of-the-link", []byte(`{"approved":true}`))
	if errors.Is(err, host.ErrNotFound) {
		log.Println("no live run holds the token")
		return
	}
	fmt.Println(reply.Status, err)
}

func ExampleHost_FollowOutput() {
	ctx := context.Background()
	var h *host.Host // from Open
	for chunk, err := range h.FollowOutput(ctx, "order-42", "progress", 0) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %s\n", chunk.Index, chunk.Data)
	}
}

func ExampleHost_Logs() {
	h := openNap()
	defer func() { _ = h.Close() }()
	r, _ := h.StartRaw(context.Background(), "nap", []byte("1ms"))
	_, _ = h.Wait(context.Background(), r.ID)
	lines, err := h.Logs(context.Background(), r.ID, 0, 100)
	fmt.Println(len(lines), err) // this workflow logs nothing
	// Output: 0 <nil>
}

func ExampleHost_StartRaw() {
	h := openNap()
	defer func() { _ = h.Close() }()
	ctx := context.Background()
	r, err := h.StartRaw(ctx, "nap", []byte("1d"),
		host.WithRunID("ada"),
		host.WithStartIn(time.Hour),                                // begin in an hour
		host.WithTimeout(48*time.Hour),                             // fail after two days
		host.WithAttributes(map[string]string{"region": "eu"}),     // found by Query.Attributes
		host.WithMemo(map[string]string{"ordered by": "the shop"})) // shown with the run
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.ID, r.Status, r.Attributes["region"], string(r.Memo))
	_, err = h.StartRaw(ctx, "nap", []byte("2d"), host.WithRunID("ada"), host.OnConflict(host.ConflictFail))
	fmt.Println(errors.Is(err, host.ErrConflict))
	// Output:
	// ada sleeping eu {"ordered by":"the shop"}
	// true
}

func ExampleHost_Pause() {
	h := openNap()
	defer func() { _ = h.Close() }()
	ctx := context.Background()
	r, _ := h.StartRaw(ctx, "nap", []byte("1d"))
	_, _, _ = h.WaitIdle(ctx)
	fmt.Println(h.Pause(ctx, r.ID))
	r, _ = h.Get(ctx, r.ID)
	fmt.Println(r.Status)
	fmt.Println(h.Unpause(ctx, r.ID))
	r, _ = h.Get(ctx, r.ID)
	fmt.Println(r.Status)
	// Output:
	// true <nil>
	// paused
	// true <nil>
	// sleeping
}

func ExampleHost_Restart() {
	h := openNap()
	defer func() { _ = h.Close() }()
	ctx := context.Background()
	_, _ = h.StartRaw(ctx, "nap", []byte("1ms"), host.WithRunID("ada"))
	_, _ = h.Wait(ctx, "ada")
	r, err := h.Restart(ctx, "ada", "ada-again", "") // from its beginning
	if err != nil {
		log.Fatal(err)
	}
	r, err = h.Wait(ctx, r.ID)
	fmt.Println(r.ID, r.Status, err)
	// Output: ada-again completed <nil>
}

func ExampleHost_Delete() {
	h := openNap()
	defer func() { _ = h.Close() }()
	ctx := context.Background()
	_, _ = h.StartRaw(ctx, "nap", []byte("1d"), host.WithRunID("ada"))
	fmt.Println(errors.Is(h.Delete(ctx, "ada"), host.ErrConflict)) // it lives
	_ = h.Terminate(ctx, "ada")
	fmt.Println(h.Delete(ctx, "ada"))
	// Output:
	// true
	// <nil>
}

func ExampleHost_Counts() {
	h := openNap()
	defer func() { _ = h.Close() }()
	ctx := context.Background()
	_, _ = h.StartRaw(ctx, "nap", []byte("1ms"), host.WithRunID("short"))
	_, _ = h.StartRaw(ctx, "nap", []byte("1d"))
	_, _ = h.StartRaw(ctx, "nap", []byte("1d"))
	_, _ = h.Wait(ctx, "short")
	_, _, _ = h.WaitIdle(ctx)
	c, err := h.Counts(ctx, "nap")
	fmt.Println(c.Total(), c[host.Completed], c[host.Sleeping], err)
	// Output: 3 1 2 <nil>
}

func ExampleParseCondition() {
	c, err := host.ParseCondition("amount >= 100")
	fmt.Println(c.Key, c.Op, c.Value, err)
	_, err = host.ParseCondition("amount != 100")
	fmt.Println(errors.Is(err, host.ErrInvalid))
	fmt.Println(host.AttributeText(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)))
	// Output:
	// amount >= 100 <nil>
	// true
	// 2026-01-31T12:00:00Z
}

func ExampleHost_RunPage() {
	h := openNap()
	defer func() { _ = h.Close() }()
	ctx := context.Background()
	for _, amount := range []int{50, 150, 250} {
		_, _ = h.StartRaw(ctx, "nap", []byte("1d"), host.WithRunID(fmt.Sprint("order-", amount)),
			host.WithAttributes(map[string]string{"amount": host.AttributeText(amount)}))
	}
	page, err := h.RunPage(ctx, host.Query{Workflow: "nap", Order: host.OldestFirst,
		Where: []host.Condition{{Key: "amount", Op: host.AtLeast, Value: "100"}}})
	for _, r := range page.Runs {
		fmt.Println(r.ID)
	}
	fmt.Println(page.Next == "", err)
	// Output:
	// order-150
	// order-250
	// true <nil>
}

func ExampleHost_Timers() {
	h := openNap()
	defer func() { _ = h.Close() }()
	ctx := context.Background()
	_, _ = h.StartRaw(ctx, "nap", []byte("2h"), host.WithRunID("later"))
	_, _ = h.StartRaw(ctx, "nap", []byte("1h"), host.WithRunID("soon"))
	_, _, _ = h.WaitIdle(ctx)
	for t, err := range h.Timers(ctx, time.Now().Add(90*time.Minute)) {
		fmt.Println(t.RunID, err)
	}
	// Output: soon <nil>
}

func ExampleHost_FollowRuns() {
	h := openNap()
	defer func() { _ = h.Close() }()
	ctx := context.Background()
	began := func() { // from here on nothing is missed
		_, _ = h.StartRaw(ctx, "nap", []byte("1ms"), host.WithRunID("ada"))
	}
	for r, err := range h.FollowRuns(ctx, "nap", began) {
		if err != nil {
			log.Fatal(err)
		}
		if r.Status.Terminal() {
			fmt.Println(r.ID, r.Status)
			break
		}
	}
	// Output: ada completed
}

func ExampleSchedules_Create() {
	h := openNap()
	defer func() { _ = h.Close() }()
	ctx := context.Background()
	s, err := h.Schedules().Create(ctx, "nightly", host.ScheduleSpec{Workflow: "nap", Input: []byte("1ms"),
		When: "0 9 * * MON-FRI", Zone: "Europe/Berlin"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.ID, s.Next.Minute())
	r, err := h.Schedules().Trigger(ctx, "nightly", "") // now
	if err != nil {
		log.Fatal(err)
	}
	r, err = h.Wait(ctx, r.ID)
	fmt.Println(r.Schedule, r.Status, err)
	// Output:
	// nightly 0
	// nightly completed <nil>
}

func ExampleScheduleSpec_Next() {
	spec := host.ScheduleSpec{When: "30 2 * * *", Zone: "Europe/Berlin"}
	// On 2026-03-29 the clock is set forward from 2:00 to 3:00: 2:30 does not exist.
	next, err := spec.Next(time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC), 2)
	for _, t := range next {
		fmt.Println(t.Format(time.RFC3339))
	}
	fmt.Println(err)
	// Output:
	// 2026-03-29T03:00:00+02:00
	// 2026-03-30T02:30:00+02:00
	// <nil>
}

func ExampleWorkflowLimits_Set() {
	h := openNap()
	defer func() { _ = h.Close() }()
	ctx := context.Background()
	if _, err := h.WorkflowLimits().Set(ctx, host.WorkflowLimit{Workflow: "nap", Concurrency: []string{"1"}}); err != nil {
		log.Fatal(err)
	}
	_, _ = h.StartRaw(ctx, "nap", []byte("1d"), host.WithRunID("first"))
	_, _ = h.StartRaw(ctx, "nap", []byte("1d"), host.WithRunID("second"))
	_, _, _ = h.WaitIdle(ctx)
	l, err := h.WorkflowLimits().Get(ctx, "nap")
	fmt.Println(l.Holding, l.Waiting, err)
	// Output: 1 1 <nil>
}

func ExampleHost_SetQuota() {
	h := openNap()
	defer func() { _ = h.Close() }()
	ctx := context.Background()
	if err := h.SetQuota(ctx, "default", host.Quota{MaxRuns: 1}); err != nil {
		log.Fatal(err)
	}
	_, err := h.StartRaw(ctx, "nap", []byte("1d"))
	fmt.Println(err)
	_, err = h.StartRaw(ctx, "nap", []byte("1d"))
	fmt.Println(errors.Is(err, host.ErrBusy))
	// Output:
	// <nil>
	// true
}

func ExampleRetentions_Set() {
	h := openNap()
	defer func() { _ = h.Close() }()
	ctx := context.Background()
	err := h.Retentions().Set(ctx, host.Retention{Workflow: "nap", Completed: 30 * 24 * time.Hour, Keep: 1000})
	fmt.Println(err)
	swept, err := h.Retentions().Sweep(ctx, true) // what would be deleted now
	fmt.Println(len(swept.Runs), err)
	// Output:
	// <nil>
	// 0 <nil>
}

func ExampleWorkflows_Check() {
	h := openNap()
	defer func() { _ = h.Close() }()
	ctx := context.Background()
	_, _ = h.StartRaw(ctx, "nap", []byte("1d"), host.WithRunID("ada"))
	_, _, _ = h.WaitIdle(ctx)
	sum, err := h.Workflows().Check(ctx, "nap", napModule(), host.CheckOptions{Each: func(c host.RunCheck) error {
		fmt.Println(c.RunID, c.Outcome)
		return nil
	}})
	fmt.Println(sum.Runs, sum.Fits(), err)
	// Output:
	// ada compatible
	// 1 true <nil>
}

func ExampleHost_Export() {
	h := openNap()
	defer func() { _ = h.Close() }()
	ctx := context.Background()
	_, _ = h.StartRaw(ctx, "nap", []byte("1ms"), host.WithRunID("ada"))
	_, _ = h.Wait(ctx, "ada")
	var file bytes.Buffer
	if err := h.Export(ctx, "ada", &file, host.ExportOptions{}); err != nil {
		log.Fatal(err)
	}
	a, err := host.ReadArchive(bytes.NewReader(file.Bytes()))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(a.Run().ID, a.Run().Status, len(a.Journal()))

	other := openNap() // another installation
	defer func() { _ = other.Close() }()
	r, err := other.Import(ctx, &file, host.ImportOptions{}) // a copy, to look at
	fmt.Println(r.ID, r.Aside, err)
	// Output:
	// ada completed 5
	// ada copy <nil>
}

func ExampleHost_Backup() {
	dir, err := os.MkdirTemp("", "wfhost-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	h, err := host.Open(ctx, host.Config{Dir: filepath.Join(dir, "data")})
	if err != nil {
		log.Fatal(err)
	}
	place := filepath.Join(dir, "backups")
	_, err = h.Backup(ctx, place, host.BackupOptions{})
	fmt.Println(errors.Join(err, h.Close()))
	_, err = host.Restore(ctx, place, filepath.Join(dir, "new"), host.RestoreOptions{})
	if err != nil {
		log.Fatal(err)
	}
	report, err := host.Verify(ctx, filepath.Join(dir, "new"), host.Config{}, host.VerifyOptions{})
	fmt.Println(len(report.Problems), err)
	// Output:
	// <nil>
	// 0 <nil>
}

func ExampleTokens_Create() {
	h := openNap()
	defer func() { _ = h.Close() }()
	ctx := context.Background()
	text, t, err := h.Tokens().Create(ctx, host.TokenSpec{Name: "ci", Namespace: "default",
		Scopes: []host.Scope{host.ScopeRun, host.ScopeRead}})
	if err != nil {
		log.Fatal(err)
	}
	who, err := h.Tokens().Authenticate(ctx, text)
	fmt.Println(who.Name, who.ID == t.ID, err)
	fmt.Println(h.Tokens().Revoke(ctx, t.ID))
	_, err = h.Tokens().Authenticate(ctx, text)
	fmt.Println(errors.Is(err, host.ErrUnauthorized))
	// Output:
	// ci true <nil>
	// <nil>
	// true
}

func ExampleJoinEvents() {
	logged := host.Events{RunEnded: func(r host.Run, lived time.Duration) {
		slog.Info("ended", "run", r.ID, "status", r.Status, "lived", lived)
	}}
	counted := host.Events{RunStarted: func(host.Run) { /* a counter */ }}
	h, err := host.Open(context.Background(), host.Config{Store: memstore.New().Open(), Events: host.JoinEvents(logged, counted)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Close())
	// Output: <nil>
}

func ExampleHeartbeat() {
	var h *host.Host // from Open
	host.HandleStep(h, "convert", func(ctx context.Context, pages int) (int, error) {
		var page int
		if d := host.StepInfo(ctx).Details; d != nil { // of the attempt before
			if err := json.Unmarshal(d, &page); err != nil {
				return 0, host.Fatal(err)
			}
		}
		for ; page < pages; page++ {
			// convert a page, then record the progress
			if err := host.Heartbeat(ctx, page+1); err != nil {
				return 0, err
			}
		}
		return pages, nil
	})
}

func ExampleHost_HandleRemote() {
	h := openNap()
	defer func() { _ = h.Close() }()
	if err := h.HandleRemote("charge"); err != nil {
		log.Fatal(err)
	}
	attempts, err := h.Attempts().Take(context.Background(), "charge", host.TakeOptions{Max: 10})
	fmt.Println(len(attempts), err) // no run waits for the handler
	// Output: 0 <nil>
}

func ExampleRunError() {
	ctx := context.Background()
	h := openNap()
	defer func() { _ = h.Close() }()
	_, _ = h.StartRaw(ctx, "nap", []byte("1d"), host.WithRunID("ada"))
	_ = h.Terminate(ctx, "ada")
	_, err := host.Result[string](ctx, h, "ada")
	if e, ok := errors.AsType[*host.RunError](err); ok {
		fmt.Println(e.RunID, e.Status)
	}
	// Output: ada terminated
}
