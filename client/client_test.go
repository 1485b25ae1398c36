package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/httpapi"
)

const local = "the local token of a test"

// served is a host with the HTTP API, and a client for it.
type served struct {
	*client.Client
	t   *testing.T
	h   *hosttest.Host
	url string
}

func serve(t *testing.T, opts ...client.Option) *served {
	t.Helper()
	s := &served{t: t, h: hosttest.New(t)}
	server := httptest.NewServer(httpapi.New(s.h.Host, httpapi.Access{Local: local}))
	t.Cleanup(server.Close)
	s.url = server.URL
	var err error
	s.Client, err = client.New(server.URL, append([]client.Option{client.WithToken(local)}, opts...)...)
	must(t, err)
	return s
}

// shop uploads the workflows of the tests.
func (s *served) shop() *served {
	s.t.Helper()
	versions, err := s.Upload(s.t.Context(), "", hosttest.Build(s.t, "testdata/shop"), client.UploadOptions{})
	must(s.t, err)
	if len(versions) != 3 || !versions[0].New || versions[0].Number != 1 {
		s.t.Fatalf("uploaded are %+v", versions)
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func wantErr(t *testing.T, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v (%T), want one that is %v", what, err, err, target)
	}
}

func all[T any](t *testing.T, seq iter.Seq2[T, error]) (list []T) {
	t.Helper()
	for v, err := range seq {
		must(t, err)
		list = append(list, v)
	}
	return list
}

type order struct {
	Customer int `json:"customer"`
}

// TestRun takes a run from its start to its result and makes every kind of request on the way.
func TestRun(t *testing.T) {
	s, ctx := serve(t).shop(), t.Context()
	r, err := s.Start(ctx, "order", order{17}, client.StartOptions{ID: "o17", Attributes: map[string]string{"tier": "gold"},
		Memo: map[string]int{"n": 1}, Timeout: 48 * time.Hour, Priority: 3})
	must(t, err)
	want(t, "id", r.ID, "o17")
	s.h.Settle()
	again, err := s.Start(ctx, "order", order{17}, client.StartOptions{ID: "o17"})
	must(t, err)
	want(t, "existed", again.Existed, true)
	_, err = s.Start(ctx, "order", order{18}, client.StartOptions{ID: "o17"})
	wantErr(t, "another input", err, client.ErrConflict)
	again, err = s.StartRaw(ctx, "order", []byte(`{"customer":17}`), client.StartOptions{ID: "o17"})
	must(t, err)
	want(t, "existed with the same bytes", again.Existed, true)
	_, err = s.StartRaw(ctx, "order", []byte("seventeen"), client.StartOptions{})
	wantErr(t, "bytes that are no JSON, for a workflow that reads JSON", err, client.ErrInvalid)

	var total int
	must(t, s.Update(ctx, "o17", "add", "u1", 5, &total))
	want(t, "total", total, 5)
	must(t, s.Update(ctx, "o17", "add", "u1", 5, &total)) // it is that one
	want(t, "total", total, 5)
	status, err := s.BeginUpdate(ctx, "o17", "add", "u2", 7)
	must(t, err)
	if status != client.UpdateAccepted && status != client.UpdateCompleted {
		t.Error("the update is", status)
	}
	must(t, s.UpdateResult(ctx, "o17", "add", "u2", &total))
	want(t, "total", total, 12)
	wantErr(t, "a refused update", s.Update(ctx, "o17", "add", "", -1, nil), client.ErrRefused)
	err = s.Update(ctx, "o17", "break", "", nil, nil)
	wantErr(t, "an update that fails", err, client.ErrFailed)
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Failure == nil || e.Failure.Message != "it broke" {
		t.Errorf("it says %+v", e)
	}
	must(t, s.Ask(ctx, "o17", "total", 2, &total))
	want(t, "twice the total", total, 24)
	wantErr(t, "a query that fails", s.Ask(ctx, "o17", "total", -1, nil), client.ErrFailed)
	wantErr(t, "a query that is none", s.Ask(ctx, "o17", "nothing", nil, nil), client.ErrNotFound)

	reply, err := s.Hooks().Deliver(ctx, fmt.Sprintf("confirmation-of-%016d", 17), "yes", client.SignalOptions{})
	must(t, err)
	want(t, "reply", fmt.Sprintf("%d %s", reply.Status, reply.Body), "200 Thank you.")
	must(t, s.Signal(ctx, "o17", "pay", "card", client.SignalOptions{IdempotencyKey: "k"}))
	s.h.Settle()
	result, err := client.Result[string](ctx, s.Client, "o17")
	must(t, err)
	want(t, "result", result, "yes by card: 12")
	must(t, s.Signal(ctx, "o17", "pay", "card", client.SignalOptions{IdempotencyKey: "k"})) // its first answer, after the end
	wantErr(t, "another signal", s.Signal(ctx, "o17", "pay", "cash", client.SignalOptions{}), client.ErrTerminal)
	r, err = s.Wait(ctx, "o17")
	must(t, err)
	if r.Status != client.Completed || r.Attributes["tier"] != "gold" || string(r.Memo) != `{"n":1}` || r.TraceID == "" {
		t.Errorf("the run is %+v", r)
	}
	s.kept(ctx)
}

// kept looks at what TestRun has left.
func (s *served) kept(ctx context.Context) {
	t := s.t
	journal := all(t, s.Journal(ctx, "o17", client.Newest, 0))
	want(t, "entries", len(journal) > 8 && journal[0].Kind == "started", true)
	want(t, "entries from 2 on", len(all(t, s.Journal(ctx, "o17", client.Newest, 2))), len(journal)-2)
	logs := all(t, s.Logs(ctx, "o17", 0))
	want(t, "log", len(logs) == 1 && strings.Contains(logs[0].Text, "customer=17"), true)
	output := all(t, s.Output(ctx, "o17", "progress", 0))
	want(t, "output", len(output) == 1 && string(output[0].Data) == `{"of":17}`, true)
	want(t, "followed entries", len(all(t, s.FollowJournal(ctx, "o17", client.Newest, 0))), len(journal))
	want(t, "followed log", len(all(t, s.FollowLogs(ctx, "o17", 0))), 1)
	want(t, "followed output", len(all(t, s.FollowOutput(ctx, "o17", "", 0))), 1)
	want(t, "followed run", len(all(t, s.FollowRun(ctx, "o17"))), 1)
	must(t, s.Delete(ctx, "o17"))
	_, err := s.Get(ctx, "o17")
	wantErr(t, "a deleted run", err, client.ErrNotFound)
}

// An error of a failed run carries the whole recorded failure.
func TestFailure(t *testing.T) {
	s, ctx := serve(t).shop(), t.Context()
	r, err := s.Start(ctx, "fails", nil, client.StartOptions{})
	must(t, err)
	s.h.Settle()
	s.h.Advance(time.Minute)
	err = errorOf(client.Result[any](ctx, s.Client, r.ID))
	e, ok := errors.AsType[*client.RunError](err)
	if !ok || e.Run.ID != r.ID || e.Run.Status != client.Failed || e.Failure == nil {
		t.Fatalf("the error is %v", err)
	}
	want(t, "code", e.Failure.Code.String(), "STEP_FAILED")
	want(t, "step", e.Failure.Name, "charge")
	want(t, "attempts", e.Failure.Attempts, 2)
	r, err = s.Get(ctx, r.ID)
	must(t, err)
	want(t, "failure of the run", r.Failure != nil && r.Failure.Message == e.Failure.Message, true)
	must(t, s.Retry(ctx, r.ID, 0))
	s.h.Settle()
	s.h.Advance(time.Minute)
	r, err = s.Wait(ctx, r.ID)
	must(t, err)
	want(t, "status after a retry", r.Status, client.Failed)
	restarted, err := s.Restart(ctx, r.ID, "again", "charge")
	must(t, err)
	want(t, "id", restarted.ID, "again")
}

func errorOf[T any](_ T, err error) error { return err }

// Lists, counts and bulk actions.
func TestMany(t *testing.T) {
	s, ctx := serve(t).shop(), t.Context()
	for i := range 12 {
		_, err := s.Start(ctx, "sleeps", nil, client.StartOptions{ID: fmt.Sprintf("..%02d", i),
			Attributes: map[string]string{"n": fmt.Sprint(i)}})
		must(t, err)
	}
	s.h.Settle()
	q := client.Query{Workflow: "sleeps", Statuses: []client.Status{client.Sleeping}, Oldest: true, Limit: 5}
	runs := all(t, s.Runs(ctx, q))
	want(t, "runs", len(runs), 12)
	want(t, "the first", runs[0].ID, "..00")
	q.Where = []string{"n>=10"}
	want(t, "where", len(all(t, s.Runs(ctx, q))), 2)
	counts, err := s.Count(ctx, "sleeps")
	must(t, err)
	want(t, "count", counts.Statuses[client.Sleeping], 12)
	want(t, "timers", len(all(t, s.Timers(ctx, 2*time.Hour))), 12)
	want(t, "timers of a minute", len(all(t, s.Timers(ctx, time.Minute))), 0)
	for range 2 {
		changed, err := s.Pause(ctx, "..03")
		must(t, err)
		r, err := s.Get(ctx, "..03")
		must(t, err)
		if r.Status != client.Paused {
			t.Error("paused", changed, r.Status)
		}
	}
	_, err = s.Unpause(ctx, "..03")
	must(t, err)
	woken, err := s.Wake(ctx, "..04", "nap")
	must(t, err)
	want(t, "woken", woken, 1)
	must(t, s.Terminate(ctx, "..05"))
	_, err = s.Cancel(ctx, "..06")
	must(t, err)
	answer, err := s.Bulk(ctx, client.Bulk{Action: "terminate", Workflow: "sleeps", Status: "sleeping", DryRun: true})
	must(t, err)
	want(t, "would be changed", len(answer.Runs), 9)
	_, err = s.Bulk(ctx, client.Bulk{Action: "terminate"})
	wantErr(t, "all runs there are", err, client.ErrInvalid)
	_, err = s.RunPage(ctx, client.Query{Limit: 5000})
	wantErr(t, "a page that is too large", err, client.ErrInvalid)
}

// Workflows, schedules and settings.
func TestSettings(t *testing.T) {
	s, ctx := serve(t).shop(), t.Context()
	versions, err := s.Workflows().Versions(ctx, "order")
	must(t, err)
	want(t, "queries", slices.Equal(versions[0].Queries, []string{"total"}), true)
	list, err := s.Workflows().List(ctx)
	must(t, err)
	want(t, "workflows", len(list), 3)
	schemas, err := s.Workflows().Schemas(ctx, "order", 0)
	must(t, err)
	want(t, "input's schema", len(schemas.Input) > 0, true)
	_, err = s.Upload(ctx, "bad", []byte("no module"), client.UploadOptions{})
	wantErr(t, "an upload", err, client.ErrRejected)
	var reports int
	sum, err := s.Workflows().Check(ctx, "order", hosttest.Build(t, "testdata/shop"), func(client.RunCheck) error { reports++; return nil })
	must(t, err)
	want(t, "checked", sum.Runs, int64(reports))
	_, err = s.Workflows().Migrate(ctx, "order", client.Migration{To: 7}, nil)
	wantErr(t, "a version that is none", err, client.ErrNotFound)

	sched, err := s.Schedules().Create(ctx, "nightly", client.ScheduleSpec{Workflow: "sleeps", When: "0 3 * * *", Jitter: "5m"})
	must(t, err)
	want(t, "next", sched.Next.IsZero(), false)
	sched.ScheduleSpec.When = "0 4 * * *"
	_, err = s.Schedules().Update(ctx, "nightly", sched.ScheduleSpec)
	must(t, err)
	_, err = s.Schedules().Update(ctx, "nightly", sched.ScheduleSpec) // with the old revision
	wantErr(t, "an old revision", err, client.ErrConflict)
	next, err := s.Schedules().Next(ctx, "nightly", 3)
	must(t, err)
	want(t, "instants", len(next), 3)
	sched, err = s.Schedules().Pause(ctx, "nightly", "holiday")
	must(t, err)
	want(t, "paused", sched.Paused && sched.Note == "holiday", true)
	_, err = s.Schedules().Resume(ctx, "nightly", "")
	must(t, err)
	run, err := s.Schedules().Trigger(ctx, "nightly", "")
	must(t, err)
	want(t, "triggered", run != "", true)
	want(t, "schedules", len(all(t, s.Schedules().List(ctx))), 1)
	must(t, s.Schedules().Delete(ctx, "nightly"))
	s.rules(ctx)
}

func (s *served) rules(ctx context.Context) {
	t := s.t
	l, err := s.WorkflowLimits().Set(ctx, client.WorkflowLimit{Workflow: "order", Concurrency: []string{"5 per input.customer"}})
	must(t, err)
	one, err := s.WorkflowLimits().Get(ctx, "order")
	must(t, err)
	want(t, "limits", one.Concurrency[0], l.Concurrency[0])
	must(t, s.WorkflowLimits().Delete(ctx, "order"))
	_, err = s.HandlerLimits().Set(ctx, client.HandlerLimit{Handler: "mail", Rate: []string{"10/1m"}})
	must(t, err)
	handlers, err := s.HandlerLimits().List(ctx)
	must(t, err)
	want(t, "handlers with limits", len(handlers), 1)
	must(t, s.HandlerLimits().Delete(ctx, "mail"))
	_, err = s.StartWindows().Set(ctx, client.StartWindow{Workflow: "order", Throttle: "1h per input.customer"})
	must(t, err)
	windows, err := s.StartWindows().List(ctx)
	must(t, err)
	want(t, "windows", len(windows), 1)
	must(t, s.StartWindows().Delete(ctx, "order"))
	_, err = s.Retentions().Set(ctx, client.Retention{Workflow: client.OthersRetention, Completed: "30d"})
	must(t, err)
	kept, err := s.Retentions().List(ctx)
	must(t, err)
	want(t, "retentions", len(kept), 1)
	must(t, s.Retentions().Delete(ctx, client.OthersRetention))
	n, err := s.SetQuota(ctx, "team", client.Quota{MaxRuns: 7})
	must(t, err)
	want(t, "quota", n.Quota.MaxRuns, 7)
	names, err := s.Namespaces(ctx)
	must(t, err)
	want(t, "namespaces", len(names), 2)

	token, text, err := s.Tokens().Create(ctx, client.TokenRequest{Namespace: "team", Scopes: []string{"read"}})
	must(t, err)
	reader, err := client.New(s.url, client.WithToken(text), client.WithNamespace("team"))
	must(t, err)
	want(t, "runs of the team", len(all(t, reader.Runs(ctx, client.Query{}))), 0)
	_, err = reader.Start(ctx, "order", nil, client.StartOptions{})
	wantErr(t, "a start by a reader", err, client.ErrDenied)
	must(t, s.Tokens().Revoke(ctx, token.ID))
	_, err = reader.Count(ctx, "")
	wantErr(t, "a revoked token", err, client.ErrDenied)
	tokens, err := s.Tokens().List(ctx)
	must(t, err)
	want(t, "tokens", len(tokens), 0)
}

// Following a run yields it after each change.
func TestFollow(t *testing.T) {
	s, ctx := serve(t).shop(), t.Context()
	_, err := s.Start(ctx, "sleeps", nil, client.StartOptions{ID: "r"})
	must(t, err)
	var seen []client.Status
	for r, err := range s.FollowRun(ctx, "r") {
		must(t, err)
		seen = append(seen, r.Status)
		if r.Status == client.Sleeping {
			_, err := s.Wake(ctx, "r", "")
			must(t, err)
		}
	}
	want(t, "the last status", seen[len(seen)-1], client.Completed)
	for _, err := range s.FollowLogs(ctx, "nobody", 0) {
		wantErr(t, "a run that is none", err, client.ErrNotFound)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err = s.Start(ctx, "sleeps", nil, client.StartOptions{ID: "q"})
	must(t, err)
	for _, err := range s.FollowRun(ctx, "q") {
		if cancel(); err != nil {
			wantErr(t, "following", err, context.Canceled)
		}
	}
}
