package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/postgres"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
)

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(ctx) })
	return c
}

// take returns the requests that are due.
func take(t testing.TB, s *postgres.Store, skip ...store.RunKey) []store.Request {
	t.Helper()
	list, err := s.Requests(ctx, nil, skip, 100)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// names returns kind, run and name of requests.
func names(list []store.Request) string {
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, "%v %s %s,", r.Kind, r.Run.ID, r.Name)
	}
	return b.String()
}

// TestBadRequests passes arguments at their limits and beyond them. The functions of the database and package abi agree on names.
func TestBadRequests(t *testing.T) {
	url := pgtest.Fresh(t)
	c := connect(t, url)
	for _, s := range []string{"", "a", "order-42", "A.b_c:d~e-", strings.Repeat("a", 128), strings.Repeat("a", 129), "a b", "ä", "a\n", "\n",
		"a/b", ".a", "-a", "wasi/x", "host/x", "wasi", "a\x01b", "a\x7fb", "a\u0085b", strings.Repeat("ä", 128), strings.Repeat("ä", 129), "💡"} {
		for what, x := range map[string]struct {
			sql   string
			check error
		}{
			"run":       {"select wfhost.start('w', $1)", abi.CheckRunID(s)},
			"workflow":  {"select wfhost.start($1)", abi.CheckWorkflow(s)},
			"signal":    {"select wfhost.signal('r', $1)", abi.CheckName("", s)},
			"of":        {"select wfhost.signal($1, 's')", abi.CheckRunID(s)},
			"key":       {"select wfhost.signal('r', 's', idempotency_key => $1)", abi.CheckName("", s)},
			"cancel":    {"select wfhost.cancel($1)", abi.CheckRunID(s)},
			"attribute": {"select wfhost.start('w', attributes => jsonb_build_object($1::text, 'v'))", abi.CheckAttribute(s, "v")},
			"value":     {"select wfhost.start('w', attributes => jsonb_build_object('k', $1::text))", abi.CheckAttribute("k", s)},
		} {
			if _, err := c.Exec(ctx, x.sql, s); (err == nil) != (x.check == nil) {
				t.Errorf("%s %q: the database says %v, package abi %v", what, s, err, x.check)
			}
		}
	}
	for call, want := range map[string]string{
		`start('w', input => to_jsonb(repeat('a', 1048574)))`: "",
		`start('w', input => to_jsonb(repeat('a', 1048575)))`: "the input has 1048577 bytes, the limit is 1048576",
		`start('w', input => to_jsonb(repeat('ä', 524287)))`:  "",
		`start('w', input => '1', input_bytes => 'x')`:        "the input is given as JSON or as bytes, not both",
		`start('w', input => '{')`:                            "invalid input syntax for type json",
		`start(null)`:                                         "workflow name must not be null",
		`signal(null, 's')`:                                   "run id must not be null",
		`signal('r', null)`:                                   "signal name must not be null",
		`signal('r', 's', to_jsonb(repeat('a', 1048575)))`:    `the payload of signal "s" has 1048577 bytes, the limit is 1048576`,
		`signal('r', 's', '1', payload_bytes => 'x')`:         `the payload of signal "s" is given as JSON or as bytes, not both`,
		`start('w', namespace => 'nowhere')`:                  `there is no namespace "nowhere"`,
		`start('w', namespace => null)`:                       "there is no namespace null",
		`cancel('r', 'nowhere')`:                              `there is no namespace "nowhere"`,
		`start('w', version => 0)`:                            "version must be 1 or more, got 0",
		`start('w', attributes => '[]')`:                      "attributes must be a JSON object, got array",
		`start('w', attributes => '{"a": 1}')`:                `attribute "a" must be a text, got number`,
		`start('w', attributes => '{"a": null}')`:             `attribute "a" must be a text, got null`,
		`start('w', memo => to_jsonb(repeat('a', 2046)))`:     "",
		`start('w', memo => to_jsonb(repeat('a', 2047)))`:     "the memo has 2049 bytes as jsonb, the limit is 2048",
		`start('w', at => '9999-12-31T23:59:59.999Z')`:        "",
		`start('w', at => 'infinity')`:                        "at must be an instant from 1970 to 9999, got infinity",
		`start('w', at => '-infinity')`:                       "at must be an instant from 1970 to 9999, got -infinity",
		`start('w', timeout => '-1 second')`:                  "timeout must not be negative",
		`start('w', timeout => '9000 years')`:                 "longer than 8000 years",
		`start('w', on_conflict => 'maybe')`:                  `on_conflict must be existing, fail, terminate or replace, got "maybe"`,
		`start('w', on_conflict => null)`:                     "got null",
		`start('w', priority => 101)`:                         "a priority is from -100 to 100, got 101",
		`start('w', priority => -100)`:                        "",
		`start('w', traceparent => repeat('a', 257))`:         "traceparent has 257 bytes, the limit is 256",
		`start('w', attributes => (select jsonb_object_agg('k' || g, '') from generate_series(1, 64) g))`: "",
		`start('w', attributes => (select jsonb_object_agg('k' || g, '') from generate_series(1, 65) g))`: "65 attributes, the limit is 64",
	} {
		_, err := c.Exec(ctx, "select wfhost."+call)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", call, err, want)
		}
		var pe *pgconn.PgError
		if errors.As(err, &pe) && !strings.HasPrefix(pe.Code, "22") {
			t.Errorf("%s: SQLSTATE %s", call, pe.Code)
		}
	}
}

// TestRequestsArePartitioned compares the partition that the database computes with that of package store.
func TestRequestsArePartitioned(t *testing.T) {
	c := connect(t, pgtest.Fresh(t))
	for i := range 300 {
		key := store.RunKey{Namespace: store.NamespaceID(i * 7919 % 4096), ID: fmt.Sprint("run-", i)}
		var p int16
		if err := c.QueryRow(ctx, "select wfhost.partition_of($1, $2)", int32(key.Namespace), key.ID).Scan(&p); err != nil {
			t.Fatal(err)
		}
		if p != int16(key.Partition()) {
			t.Fatalf("%+v: %d, want %d", key, p, key.Partition())
		}
	}
}

// TestRequestsFollowTheTransaction looks for requests of transactions that are rolled back, also to a savepoint, and committed.
func TestRequestsFollowTheTransaction(t *testing.T) {
	url := pgtest.Fresh(t)
	s, c := open(t, url), connect(t, url)
	for _, step := range []struct{ sql, want string }{
		{"begin", ""},
		{"select wfhost.start('w', 'lost')", ""},
		{"rollback", ""},
		{"begin", ""},
		{"select wfhost.start('w', 'r', '{\"sum\": 7}')", ""},
		{"savepoint a", ""},
		{"select wfhost.signal('r', 'lost')", ""},
		{"rollback to a", ""},
		{"select wfhost.signal('r', 'kept', payload_bytes => '\\x00ff')", ""},
		{"select wfhost.cancel('r')", ""},
		{"commit", "start r w,signal r kept,cancel r ,"},
	} {
		if _, err := c.Exec(ctx, step.sql); err != nil {
			t.Fatal(step.sql, err)
		}
		if got := names(take(t, s)); got != step.want {
			t.Errorf("after %s: %s", step.sql, got)
		}
	}
	list := take(t, s)
	if string(list[0].Data) != `{"sum": 7}` || string(list[1].Data) != "\x00\xff" || list[0].Token == list[1].Token || list[0].OnConflict != "existing" {
		t.Errorf("%+v", list)
	}
}

// TestRequestWaitsForEarlierOnes puts off the first request of a run: those behind it wait, also one that is made meanwhile, and
// those of other runs do not.
func TestRequestWaitsForEarlierOnes(t *testing.T) {
	url := pgtest.Fresh(t)
	s := open(t, url)
	sql(t, url, "select wfhost.start('w', 'a'), wfhost.signal('a', '1'), wfhost.start('w', 'b')")
	list := take(t, s)
	if got := names(list); got != "start a w,signal a 1,start b w," {
		t.Fatal(got)
	}
	if got := names(take(t, s, store.RunKey{ID: "a"})); got != "start b w," {
		t.Errorf("without the run a: %s", got)
	}
	end := func(r ...store.RequestResult) {
		t.Helper()
		if err := s.EndRequests(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	end(store.RequestResult{ID: list[0].ID, Reason: "busy\x00\xff", AgainMs: 3_600_000}, store.RequestResult{ID: list[2].ID})
	sql(t, url, "select wfhost.signal('a', '2')")
	if got := names(take(t, s)); got != "" {
		t.Errorf("behind a start that was put off: %s", got)
	}
	sql(t, url, "select wfhost.retry_request(id) from wfhost.requests where kind = 'start'")
	if got := names(take(t, s)); got != "start a w,signal a 1,signal a 2," {
		t.Errorf("after retry_request: %s", got)
	}
	end(store.RequestResult{ID: list[0].ID, Reason: "never"})
	sql(t, url, "select wfhost.retry_request(id) from wfhost.requests where refused is null")
	list = take(t, s)
	if got := names(list); got != "signal a 1,signal a 2," {
		t.Errorf("behind a refused start: %s", got)
	}
	c := connect(t, url)
	var text string
	err := c.QueryRow(ctx, `select string_agg(format('%s %s %s %s', kind, run, refused is not null, reason), ',' order by id)
		from wfhost.requests`).Scan(&text)
	if err != nil || text != "start a t never,signal a f ,signal a f " {
		t.Errorf("%s %v", text, err)
	}
	var there bool
	for _, want := range []bool{true, false} {
		if err := c.QueryRow(ctx, "select wfhost.delete_request($1)", list[0].ID).Scan(&there); err != nil || there != want {
			t.Errorf("delete_request: %v %v", there, err)
		}
	}
}

// TestNewRequestsPassDelayedOnes asks for a start while many requests that were put off are due again, with others behind them.
func TestNewRequestsPassDelayedOnes(t *testing.T) {
	url := pgtest.Fresh(t)
	s := open(t, url)
	sql(t, url, "select wfhost.start('w', 'd' || g), wfhost.signal('d' || g, 's') from generate_series(1, 300) g")
	for list := take(t, s); len(list) > 0; list = take(t, s) {
		var put []store.RequestResult
		for _, r := range list {
			if r.Kind == store.RequestStart {
				put = append(put, store.RequestResult{ID: r.ID, Reason: "quota", AgainMs: 3_600_000})
			}
		}
		if err := s.EndRequests(ctx, put); err != nil || len(put) == 0 {
			t.Fatal(names(list), err)
		}
	}
	sql(t, url, "update wfhost.request set due = due - interval '1 day'", "select wfhost.start('w', 'new')")
	var starts int
	got := map[string]bool{}
	for _, r := range take(t, s) {
		got[r.Run.ID] = true
		if r.Kind == store.RequestStart {
			starts++
		}
	}
	if !got["new"] || starts < 50 {
		t.Errorf("%d starts, of them the new one: %v", starts, got["new"])
	}
}

// TestRequestsOfCollatedColumns passes columns with collations of their own.
func TestRequestsOfCollatedColumns(t *testing.T) {
	url := pgtest.Fresh(t)
	s := open(t, url)
	sql(t, url, "insert into wfhost.namespace values (1, 0, 'shop')",
		"create collation blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
	for _, collation := range []string{`"C"`, `"POSIX"`, "blind"} {
		sql(t, url, `create table arguments (w text, r text, n text, s text, c text)`)
		for _, column := range []string{"w", "r", "n", "s", "c"} {
			sql(t, url, "alter table arguments alter "+column+" type text collate "+collation)
		}
		sql(t, url, "insert into arguments values ('w', 'r', 'shop', 's', 'fail')",
			"select wfhost.start(w, r, namespace => n, on_conflict => c) from arguments",
			"select wfhost.signal(r, s, namespace => n, idempotency_key => s), wfhost.cancel(r, namespace => n) from arguments")
		c := connect(t, url)
		if _, err := c.Exec(ctx, "select wfhost.start(w, r, namespace => upper(n)) from arguments"); err == nil {
			t.Errorf("%s: a namespace in other letters", collation)
		}
		list := take(t, s)
		if got := names(list); got != "start r w,signal r s,cancel r ," || list[0].Run.Namespace != 1 {
			t.Errorf("%s: %s", collation, got)
		}
		sql(t, url, "delete from wfhost.request", "drop table arguments")
	}
}

// TestRequestsOfARole asks as a role that may only execute the functions and read the views.
func TestRequestsOfARole(t *testing.T) {
	url := pgtest.Fresh(t)
	s := open(t, url)
	sql(t, url, "drop role if exists app", "create role app login")
	t.Cleanup(func() { sql(t, url, "drop owned by app", "drop role app") })
	c := connect(t, strings.Replace(url, "postgres@", "app@", 1))
	code := func(sql string) string {
		_, err := c.Exec(ctx, sql)
		var pe *pgconn.PgError
		if errors.As(err, &pe) {
			return pe.Code
		}
		return fmt.Sprint(err)
	}
	if got := code("select wfhost.start('w')"); got != "42501" {
		t.Error("without a right on the schema:", got)
	}
	sql(t, url, "grant usage on schema wfhost to app")
	for _, call := range []string{"start('w')", "signal('r', 's')", "cancel('r')", "retry_request(1)", "delete_request(1)"} {
		if got := code("select wfhost." + call); got != "42501" {
			t.Errorf("%s without a right: %s", call, got)
		}
	}
	sql(t, url, "grant execute on function wfhost.start, wfhost.signal, wfhost.cancel to app")
	sql(t, url, "grant select on wfhost.runs, wfhost.steps, wfhost.failures, wfhost.requests to app")
	// A role cannot put functions of its own in the place of those that are called with the rights of the owner.
	sql(t, url, "create schema trap authorization app")
	for _, q := range []string{
		"create function trap.octet_length(text) returns integer language sql as 'select 1/0'",
		"set search_path = trap, pg_catalog",
		"select wfhost.start('w', 'r'), wfhost.signal('r', 's'), wfhost.cancel('r')",
		"select * from wfhost.runs, wfhost.steps, wfhost.failures, wfhost.requests",
	} {
		if got := code(q); got != "<nil>" {
			t.Errorf("%s: %s", q, got)
		}
	}
	for _, q := range []string{"select * from wfhost.run", "select * from wfhost.request", "insert into wfhost.request (run) values ('x')",
		"delete from wfhost.requests", "select * from wfhost.token", "select wfhost.take_requests(null, '{}', '{}', 1, 1)"} {
		if got := code(q); got != "42501" && got != "55000" {
			t.Errorf("%s: %s", q, got)
		}
	}
	if got := names(take(t, s)); got != "start r w,signal r s,cancel r ," {
		t.Error(got)
	}
	var role string
	if err := c.QueryRow(ctx, "select distinct role from wfhost.requests").Scan(&role); err != nil || role != "app" {
		t.Error(role, err)
	}
}

// TestListen waits for a request of another session, and for one after the connection of Listen was lost.
func TestListen(t *testing.T) {
	url := pgtest.Fresh(t)
	s := open(t, url)
	ctx, cancel := context.WithCancel(ctx)
	arrived, ended := make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(ended)
		s.Listen(ctx, func() { arrived <- struct{}{} })
	}()
	<-arrived // it listens
	sql(t, url, "begin", "select wfhost.start('w', 'r')", "commit")
	<-arrived
	sql(t, url, "select pg_terminate_backend(pid) from pg_stat_activity where query = 'listen wfhost_request'")
	<-arrived // it listens again
	sql(t, url, "set wfhost.notify = off", "select wfhost.start('w', 'quiet')", "set wfhost.notify = on", "select wfhost.start('w', 's')")
	<-arrived
	cancel()
	<-ended
	if len(arrived) > 0 {
		t.Error("notified with wfhost.notify off")
	}
	if got := names(take(t, s)); got != "start r w,start quiet w,start s w," {
		t.Error(got)
	}
}
