package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
)

// manyRuns fills a database with 20,000 runs, one a second, in two namespaces: 1 in 200 has failed, 1 in 1,000 is stuck, 1 in 1,000
// is running, 1 in 10 sleeps, and the others have completed. Each has 7 entries.
func manyRuns(t *testing.T) string {
	t.Helper()
	url := pgtest.Fresh(t)
	s := open(t, url)
	if _, err := s.Namespace(ctx, "other", true); err != nil {
		t.Fatal(err)
	}
	run := store.RunKey{ID: "model"}
	p := acquire(t, s, run.Partition())
	c := grow(run, 0, 7, true)
	c[0].State.Reason, c[0].State.Parent, c[0].State.CreatedUnixMs, c[0].State.UpdatedUnixMs = "why", "parent", 1, 2
	for i := range c[0].Append {
		e := &c[0].Append[i]
		*e = store.Entry{Seq: e.Seq, Kind: store.KindStep, UnixMs: 5, Handle: int64(i) + 1, Name: fmt.Sprint("s", i), Target: "charge", Input: []byte("7")}
	}
	c[0].Append[5] = store.Entry{Seq: 5, Kind: store.KindStepResult, UnixMs: 6, Handle: 1, Attempt: 1, Data: []byte(`{"ok": true}`)}
	c[0].Append[6] = store.Entry{Seq: 6, Kind: store.KindFailed, UnixMs: 6, Data: []byte(`{"message": "out of stock", "code": "STEP_FAILED"}`)}
	if err := p.Commit(ctx, c); err != nil {
		t.Fatal(err)
	}
	sql(t, url, `insert into wfhost.run (created, ended, wake, tail_first, ns, rev, iteration, version, p, status, listed, busy, timer, deleted,
			id, workflow, tail, state)
		select 1700000000000 + g * 1000, case when x.status > 6 then 1700000001000 + g * 1000 end, case when x.status = 3 then 1800000000000 + g end,
			r.tail_first, g % 2, 0, 0, 1, g % 64, x.status, case when x.status <> 2 then x.status end, x.status = 2, x.status = 3, false,
			'run-' || g, 'w' || g % 50, r.tail, r.state
		from wfhost.run r cross join generate_series(1, 20000) g
		cross join lateral (select case when g % 200 = 7 then 8 when g % 1000 = 11 then 6 when g % 1000 = 13 then 2 when g % 10 = 3 then 3
			else 7 end as status) x`,
		"delete from wfhost.run where id = 'model'", "vacuum analyze wfhost.run", "analyze wfhost.chunk", "analyze wfhost.namespace")
	return url
}

// TestViewsUseIndexes explains common queries of a store with 20,000 runs. None may read the whole table, and each finds what it is
// to find.
func TestViewsUseIndexes(t *testing.T) {
	c := connect(t, manyRuns(t))
	for query, want := range map[string]int{
		"from wfhost.runs where id = 'run-42'":                                                                               1,
		"from wfhost.runs where namespace = 'default' and id = 'run-42'":                                                     1,
		"from wfhost.runs where status = 'failed'":                                                                           100,
		"from wfhost.runs where status = 'stuck' and namespace = 'other'":                                                    20,
		"from wfhost.runs where status = 'running'":                                                                          20,
		"from wfhost.runs where status in ('stuck', 'failed') and namespace = 'default'":                                     0,
		"from wfhost.runs where namespace = 'default' and workflow = 'w2'":                                                   400,
		"from wfhost.runs where created > to_timestamp(1700019000)":                                                          1000,
		"from wfhost.runs where created between to_timestamp(1700001001) and to_timestamp(1700002000) and status = 'failed'": 5,
		"from wfhost.runs where ended >= to_timestamp(1700019991)":                                                           10,
		"from wfhost.steps where run = 'run-42'":                                                                             5,
		"from wfhost.steps where namespace = 'default' and run = 'run-42' and status = 'completed'":                          1,
		"from wfhost.failures": 120,
		"from wfhost.failures where namespace = 'other' and status = 'failed' and error = 'out of stock'": 100,
	} {
		var n int
		if err := c.QueryRow(ctx, "select count(*) "+query).Scan(&n); err != nil {
			t.Errorf("%s: %v", query, err)
		}
		rows, err := c.Query(ctx, "explain (analyze, costs off, timing off) select * "+query)
		if err != nil {
			t.Fatal(query, err)
		}
		var plan strings.Builder
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			plan.WriteString(line + "\n")
		}
		if err := rows.Err(); err != nil {
			t.Fatal(query, err)
		}
		lines := strings.Split(strings.TrimSpace(plan.String()), "\n")
		t.Logf("%s: %d, %s", query, n, lines[len(lines)-1])
		if n != want || strings.Contains(plan.String(), "Seq Scan on run") {
			t.Errorf("%s: %d rows, want %d, by the plan\n%s", query, n, want, plan.String())
		}
	}
}
