package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/wfhost/wfhost/store"
)

// List returns a page of runs. It reads one index in its order, in portions, and at most store.MaxLooks entries of it.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := s.usable(); err != nil {
		return store.Page{}, err
	}
	q.Statuses = store.Distinct(q.Statuses)
	bad := func(a store.Attribute) bool { return !legal(a.Key) || !legal(a.Value) }
	if !legal(q.Workflow) || slices.ContainsFunc(q.Attributes, bad) {
		return store.Page{}, nil
	}
	if q.After != nil && !legal(q.After.ID) {
		return store.Page{}, badText("run", q.After.ID)
	}
	from, args, exact, err := s.choose(ctx, &q)
	if err != nil || from == "" {
		return store.Page{}, err
	}
	l := &lister{s: s, limit: store.PageLimit(q.Limit), exact: exact, after: q.After}
	l.matches = func(st *store.RunState, at store.Position) bool {
		return st.CreatedUnixMs == at.UnixMs && q.Matches(st)
	}
	l.sql = func(after *store.Position, n int) (string, []any) {
		args := slices.Clone(args)
		arg := func(v any) string {
			args = append(args, v)
			return fmt.Sprintf("$%d", len(args))
		}
		where := ""
		if q.CreatedFrom != nil {
			where += " and r.created >= " + arg(*q.CreatedFrom)
		}
		if q.CreatedBefore != nil {
			where += " and r.created < " + arg(*q.CreatedBefore)
		}
		order, than := "desc", "<"
		if q.Oldest {
			order, than = "asc", ">"
		}
		if after != nil {
			where += fmt.Sprintf(" and (r.created, r.id) %s (%s, %s)", than, arg(after.UnixMs), arg(after.ID))
		}
		ordered := fmt.Sprintf("order by r.created %s, r.id %s limit %d", order, order, n)
		index := strings.NewReplacer("WHERE", where, "ORDER", ordered).Replace(from)
		state := shown(&q, arg)
		by := fmt.Sprintf("created %s, id %s", order, order)
		sql := fmt.Sprintf("select created, id, %s as state from (%s) x order by %s limit %d", state, index, by, n)
		return bounded("created", sql, by), args
	}
	return l.page(ctx)
}

// bounded returns a query for the first rows of a query of places, ids and states: those whose states a page can hold, and one
// more.
func bounded(place, sql, order string) string {
	return fmt.Sprintf(`select %[1]s, id, state from (
		select %[1]s, id, state,
			sum(coalesce(octet_length(state), 0)) over (order by %[3]s) - coalesce(octet_length(state), 0) as before
		from (%[2]s) y) z where before < %[4]d order by %[3]s`, place, sql, order, store.MaxPageBytes)
}

// shown returns the expression for the state of a run that the filters by status and workflow select, null for others.
func shown(q *store.Query, arg func(any) string) string {
	var when []string
	if len(q.Statuses) > 0 {
		when = append(when, "status = any("+arg(numbers(q.Statuses))+"::smallint[])")
	}
	if q.Workflow != "" {
		when = append(when, "workflow = "+arg(q.Workflow))
	}
	if len(when) == 0 {
		return "state"
	}
	return "case when " + strings.Join(when, " and ") + " then state end"
}

func numbers(list []store.Status) []int16 {
	n := make([]int16, len(list))
	for i, s := range list {
		n[i] = int16(s)
	}
	return n
}

const columns = "r.created, r.id, r.status, r.workflow, r.state"

// choose returns the query of the index to read for a list: among those that together have all its runs, the one with the fewest
// entries. WHERE and ORDER stand for further conditions and for the order with its limit. exact is true if the index has no
// other runs. "" means that there is no such run.
func (s *Store) choose(ctx context.Context, q *store.Query) (from string, args []any, exact bool, err error) {
	counts, err := s.Counts(ctx, q.Namespace)
	if err != nil {
		return "", nil, false, err
	}
	var total, workflow, statuses, both int64
	for i := range counts {
		n := &counts[i].Runs
		total += n.Total()
		statuses += n.Of(q.Statuses)
		if q.Workflow == "" || counts[i].Workflow == q.Workflow {
			workflow += n.Total()
			both += n.Of(q.Statuses)
		}
	}
	ns := int32(q.Namespace)
	more := len(q.Attributes)+len(q.Ranges) > 0
	switch least := min(workflow, statuses); {
	case both == 0:
		return "", nil, false, nil
	case len(q.Attributes) > 0 && least > store.MaxLooks: // the number of runs with an attribute is unknown
		return `select r.created, r.id, x.status, x.workflow, x.state from wfhost.attribute r
			join wfhost.run x on x.ns = r.ns and x.id = r.id
			where r.ns = $1 and r.key = $2 and r.value = $3 WHERE ORDER`,
			[]any{ns, q.Attributes[0].Key, q.Attributes[0].Value}, false, nil
	case least*2 > total: // most runs would be looked at anyway
		return "select " + columns + " from wfhost.run r where r.ns = $1 and not r.deleted WHERE ORDER", []any{ns},
			least == total && !more, nil
	case workflow <= statuses:
		return "select " + columns + " from wfhost.run r where r.ns = $1 and r.workflow = $2 and not r.deleted WHERE ORDER",
			[]any{ns, q.Workflow}, len(q.Statuses) == 0 && !more, nil
	}
	return statusLists(q), []any{ns}, q.Workflow == "" && !more, nil
}

// statusLists returns the query of the lists of the statuses of a query.
func statusLists(q *store.Query) string {
	var lists []string
	busy := false
	for _, st := range q.Statuses {
		switch {
		case !st.Busy():
			lists = append(lists, fmt.Sprintf("(select %s from wfhost.run r where r.ns = $1 and r.listed = %d WHERE ORDER)", columns, st))
		case !busy:
			busy = true
			lists = append(lists, "(select "+columns+" from wfhost.run r where r.ns = $1 and r.busy WHERE ORDER)")
		}
	}
	return strings.Join(lists, " union ") // of one run once: a busy one may be in a list, too
}

// lister reads the pages of a list.
type lister struct {
	s     *Store
	limit int
	exact bool // hardly a run that is looked at is left out
	after *store.Position
	// sql returns the query for the next n entries of the index after a position: place, id, and the state, or null.
	sql     func(after *store.Position, n int) (string, []any)
	matches func(*store.RunState, store.Position) bool
}

type looked struct {
	at    store.Position
	ns    store.NamespaceID
	state []byte
}

func (l *lister) page(ctx context.Context) (page store.Page, err error) {
	portion := l.limit + 1
	at, held := l.after, 0
	for looks := 0; ; {
		n := min(portion, store.MaxLooks-looks+1)
		list, err := l.look(ctx, at, n)
		if err != nil {
			return store.Page{}, err
		}
		bytes := 0
		for i := range list {
			bytes += len(list[i].state)
			if len(page.Runs) == l.limit || looks == store.MaxLooks || held >= store.MaxPageBytes {
				page.Next = at
				return page, nil
			}
			looks++
			at = &list[i].at
			if list[i].state == nil {
				continue
			}
			st, err := store.DecodeState(list[i].state)
			switch {
			case err != nil:
				if !errors.Is(err, store.ErrCorrupt) {
					return page, err
				}
			case l.matches(&st, list[i].at):
				page.Runs = append(page.Runs, st)
				held += st.Bytes()
			}
		}
		if len(list) < n && bytes < store.MaxPageBytes { // otherwise the states of further ones were too much
			return page, nil
		}
		portion *= 2
	}
}

func (l *lister) look(ctx context.Context, at *store.Position, n int) (list []looked, err error) {
	sql, args := l.sql(at, n)
	err = l.s.read(ctx, func(ctx context.Context) error {
		list = list[:0]
		rows, err := l.s.pool.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		var ms int64
		var id string
		var state []byte
		_, err = pgx.ForEachRow(rows, []any{&ms, &id, &state}, func() error {
			list = append(list, looked{at: store.Position{UnixMs: ms, ID: id}, state: state})
			return nil
		})
		return err
	})
	return list, err
}

var timersSQL = bounded("wake", `select wake, id, case when coalesce(due, wake) <= $2 then state end as state from wfhost.run
	where ns = $1 and timer and wake <= $6 and (wake, id) > ($3, $4) order by wake, id limit $5`, "wake, id")

// Timers returns a page of the runs that wait for a deadline.
func (s *Store) Timers(ctx context.Context, q store.TimerQuery) (store.Page, error) {
	if err := s.usable(); err != nil {
		return store.Page{}, err
	}
	if q.After != nil && !legal(q.After.ID) {
		return store.Page{}, badText("run", q.After.ID)
	}
	l := &lister{s: s, limit: store.PageLimit(q.Limit), exact: true, after: q.After}
	l.matches = func(st *store.RunState, at store.Position) bool {
		return q.Matches(st) && max(st.WakeUnixMs, 0) == at.UnixMs
	}
	l.sql = func(after *store.Position, n int) (string, []any) {
		at := store.Position{UnixMs: math.MinInt64}
		if after != nil {
			at = *after
		}
		return timersSQL, []any{int32(q.Namespace), q.UntilMs, at.UnixMs, at.ID, n, max(q.UntilMs, 0)}
	}
	return l.page(ctx)
}

// countSQL adds the lanes up.
const countSQL = `select ns, workflow, version, status, sum(n)::bigint from wfhost.count where %s
	group by ns, workflow, version, status`

// totals calls visit for each count that is not zero.
func (s *Store) totals(ctx context.Context, where string, visit func(k counted, n int64), args ...any) error {
	var keys []counted
	var numbers []int64
	err := s.read(ctx, func(ctx context.Context) error {
		keys, numbers = nil, nil
		rows, err := s.pool.Query(ctx, fmt.Sprintf(countSQL, where), args...)
		if err != nil {
			return err
		}
		var ns, version int32
		var workflow string
		var status int16
		var n int64
		_, err = pgx.ForEachRow(rows, []any{&ns, &workflow, &version, &status, &n}, func() error {
			keys = append(keys, counted{store.NamespaceID(ns), workflow, uint32(version), store.Status(status)})
			numbers = append(numbers, n)
			return nil
		})
		return err
	})
	for i, k := range keys {
		if numbers[i] != 0 && err == nil {
			visit(k, numbers[i])
		}
	}
	return err
}

// Counts returns the number of runs of each version in a namespace.
func (s *Store) Counts(ctx context.Context, ns store.NamespaceID) ([]store.Count, error) {
	type kind struct {
		workflow string
		version  uint32
	}
	of := map[kind]*store.Count{}
	err := s.totals(ctx, "ns = $1 and status > 0", func(k counted, n int64) {
		c := of[kind{k.workflow, k.version}]
		if c == nil {
			c = &store.Count{Workflow: k.workflow, Version: k.version}
			of[kind{k.workflow, k.version}] = c
		}
		c.Runs.Add(k.status, n)
	}, int32(ns))
	if err != nil {
		return nil, err
	}
	var list []store.Count
	for _, c := range of {
		list = append(list, *c)
	}
	slices.SortFunc(list, store.CompareCounts)
	return list, nil
}

// Tallies returns the number of runs of each namespace.
func (s *Store) Tallies(ctx context.Context) (map[store.NamespaceID]store.Tally, error) {
	all := map[store.NamespaceID]store.Tally{}
	err := s.totals(ctx, "status > 0", func(k counted, n int64) {
		t := all[k.ns]
		t.Add(k.status, n)
		all[k.ns] = t
	})
	return all, err
}

// CountOf returns the number of runs of a version of a workflow.
func (s *Store) CountOf(ctx context.Context, ns store.NamespaceID, workflow string, version uint32) (t store.Tally, err error) {
	if !legal(workflow) {
		return t, s.usable()
	}
	err = s.totals(ctx, "ns = $1 and workflow = $2 and version = $3 and status > 0", func(k counted, n int64) { t.Add(k.status, n) },
		int32(ns), workflow, int32(version))
	return t, err
}

// Used returns the usage of a namespace.
func (s *Store) Used(ctx context.Context, ns store.NamespaceID) (u store.Usage, err error) {
	err = s.totals(ctx, "ns = $1", func(k counted, n int64) {
		switch {
		case k.status == 0:
			u.Bytes += n
		case !k.status.Terminal():
			u.Runs += n
		}
	}, int32(ns))
	return u, err
}

// Ended returns ended or deleted runs.
func (s *Store) Ended(ctx context.Context, q store.EndedQuery) (list []store.Position, err error) {
	if !legal(q.After.ID) {
		return nil, badText("run", q.After.ID)
	}
	err = s.read(ctx, func(ctx context.Context) error {
		list = nil
		rows, err := s.pool.Query(ctx, `select ended, id from wfhost.run where p = $1 and ns = $2 and deleted = $3 and ended is not null
			and ended <= $4 and (ended, id) > ($5, $6) order by ended, id limit $7`, int16(q.Partition), int32(q.Namespace), q.Deleted,
			q.UntilMs, q.After.UnixMs, q.After.ID, max(q.Limit, 0))
		if err != nil {
			return err
		}
		var at store.Position
		_, err = pgx.ForEachRow(rows, []any{&at.UnixMs, &at.ID}, func() error {
			list = append(list, at)
			return nil
		})
		return err
	})
	return list, err
}
