package host_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

// TestViews compares what the views show of some runs with what the host says.
func TestViews(t *testing.T) {
	a := newAsked(t)
	_, err := a.Start(ctx, "retryable", 1, host.WithRunID("bad"), host.WithMemo(map[string]string{"by": "ada"}),
		host.WithAttributes(map[string]string{"region": "eu"}))
	do(t, err)
	failed, err := a.Wait(ctx, "bad")
	if err != nil || failed.Status != host.Failed {
		t.Fatal(failed, err)
	}
	_, err = a.Start(ctx, "counter", 2, host.WithRunID("iterates"))
	do(t, err)
	_, err = a.Wait(ctx, "iterates")
	do(t, err)
	_, err = a.Start(ctx, "receive", 1, host.WithRunID("waits"))
	do(t, err)
	_, err = a.Start(ctx, "patient", 3600, host.WithRunID("timed"))
	do(t, err)
	for _, id := range []string{"waits", "timed"} {
		waitsFor(t, a.Host, id, "go")
	}
	a.exec("set time zone 'UTC'")
	rows, err := a.Query(ctx, `select format('%s %s %s %s %s %s %s', namespace, id, workflow, version, status, iteration,
		attributes ->> 'region'), created, started, updated, ended, wake, coalesce(reason, ''), coalesce(error, ''), coalesce(memo::text, '') from wfhost.runs`)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; rows.Next(); n++ {
		var text, reason, failure, memo string
		var created, started, updated time.Time
		var ended, wake *time.Time
		if err := rows.Scan(&text, &created, &started, &updated, &ended, &wake, &reason, &failure, &memo); err != nil {
			t.Fatal(err)
		}
		r, err := a.Get(ctx, strings.Fields(text)[1])
		do(t, err)
		same := func(got *time.Time, want time.Time) bool {
			return got == nil && want.IsZero() || got != nil && got.Equal(want)
		}
		want := fmt.Sprintf("default %s %s %d %s %d %s", r.ID, r.Workflow, r.Version, r.Status, r.Iteration, r.Attributes["region"])
		if text != want || !same(&created, r.Created) || !same(&started, r.Started) || !same(&updated, r.Updated) || !same(ended, r.Ended) ||
			!same(wake, r.Wake) || reason != r.Reason || failure != r.Error || strings.ReplaceAll(memo, " ", "") != string(r.Memo) {
			t.Errorf("%s %v %v %v %v %v %q %q %s, the host says %+v", text, created, started, updated, ended, wake, reason, failure, memo, r)
		}
	}
	if n != 4 {
		t.Errorf("%d runs", n)
	}
	if got := a.text(`select string_agg(format('%s %s %s %s %s %s %s %s %s', run, iteration, name, handler, status, attempts, error, input,
		result), '; ' order by run, seq) from wfhost.steps where ended >= called`); got !=
		`bad 0 good host/mail completed 1  "good" "sent good"; bad 0 bad host/flaky failed 2 out of order "bad" ` {
		t.Error(got)
	}
	if got := a.text(`select format('%s %s %s %s %s %s %s', run, status, error, code, step, attempts, failure ->> 'kind') from wfhost.failures
		where at = $1`, failed.Ended); !strings.HasPrefix(got, "bad failed ") || !strings.Contains(got, "out of order STEP_FAILED bad 2 ") {
		t.Error(got)
	}
}

// TestViewsOfRetriedRuns shows the steps of a run that was retried: what the retry voided does not count.
func TestViewsOfRetriedRuns(t *testing.T) {
	a := newAsked(t)
	_, err := a.Start(ctx, "retryable", 1, host.WithRunID("bad"))
	do(t, err)
	for range 2 {
		if r, err := a.Wait(ctx, "bad"); err != nil || r.Status != host.Failed {
			t.Fatal(r, err)
		}
		do(t, a.Retry(ctx, "bad", 0))
	}
	_, err = a.Wait(ctx, "bad")
	do(t, err)
	if got := a.text(`select string_agg(format('%s %s %s', name, status, attempts), '; ' order by seq) from wfhost.steps`); got !=
		"good completed 1; bad failed 6" {
		t.Error(got)
	}
	if got := a.text("select count(*)::text from wfhost.failures"); got != "1" {
		t.Error(got)
	}
}

// TestViewsOfSealedRuns shows what is null if payloads are encrypted.
func TestViewsOfSealedRuns(t *testing.T) {
	a := newAsked(t)
	a.stop()
	a.open(host.Config{Codec: keyring(t, keyLine("k1", 1))}, nil)
	_, err := a.Start(ctx, "retryable", 1, host.WithRunID("bad"), host.WithMemo("secret"))
	do(t, err)
	_, err = a.Wait(ctx, "bad")
	do(t, err)
	if got := a.text(`select format('%s %s %s', status, coalesce(error, reason, memo::text, 'null'), ended is not null) from wfhost.runs`); got != "failed null t" {
		t.Error(got)
	}
	if got := a.text(`select string_agg(format('%s %s', called is not null, coalesce(name, handler, status, attempts::text, ended::text,
		error, input::text, result::text, 'null')), ', ') from wfhost.steps`); got != "t null, t null" {
		t.Error(got)
	}
	if got := a.text("select format('%s %s', status, coalesce(error, code, step, failure::text, 'null')) from wfhost.failures"); got !=
		"failed null" {
		t.Error(got)
	}
}
