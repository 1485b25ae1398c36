package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/wfhost/wfhost/store"
)

var errForeign = errors.New("the partition was not acquired from this store")

// call returns the statement that calls a function of the schema with n arguments.
func call(function string, n int) string {
	var b strings.Builder
	b.WriteString("select wfhost." + function + "(")
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("$" + strconv.Itoa(i+1))
	}
	return b.String() + ")"
}

// Numbers of arguments of functions of the schema.
const (
	commitArgs    = 32
	commitAllArgs = 80
)

var (
	callCommit    = call("commit", commitArgs)
	callCommitAll = call("commit_all", commitAllArgs)
)

// exec executes a statement that writes, as write does.
func (s *Store) exec(ctx context.Context, sql string, args ...any) error {
	return s.write(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, sql, args...)
		return err
	})
}

// write calls do, which writes in one transaction, and once more if that failed because of other transactions. The write is not
// cancelled with ctx: the server would go on, and the outcome would be unknown.
func (s *Store) write(ctx context.Context, do func(context.Context, *pgxpool.Conn) error) error {
	if err := s.usable(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return notWritten{err}
	}
	defer c.Release()
	data := c.Conn().PgConn().CustomData()
	delete(data, warning)
	err = do(ctx, c)
	if again(err) {
		err = do(ctx, c)
	}
	if w := data[warning]; w != nil && err == nil {
		// An operator has ended the wait for a synchronous standby: the commit is visible, and a failover may lose it.
		err = fmt.Errorf("warning: %v", w)
	}
	return err
}

// Commit makes groups durable in one transaction and one round trip.
func (s *Store) Commit(ctx context.Context, groups []store.Group) error {
	if err := s.usable(); err != nil {
		return err
	}
	if err := store.CheckGroups(groups); err != nil {
		return err
	}
	if len(groups) == 0 {
		return nil
	}
	c := &commit{s: s, groups: groups}
	if err := c.owned(); err != nil {
		return err
	}
	if err := c.build(ctx); err != nil {
		return err
	}
	return c.do(ctx)
}

// commit is a call of Commit.
type commit struct {
	change
	s      *Store
	groups []store.Group
	olds   map[store.RunKey]*record // what is known of the runs before the commit
	news   []*record                // of all runs in their order; absent if deleted
}

// owned checks what this process knows of the owners, and collects the tokens.
func (c *commit) owned() error {
	order := make([]int, len(c.groups))
	c.s.mu.RLock()
	defer c.s.mu.RUnlock()
	for i := range c.groups {
		order[i] = i
		p, ok := c.groups[i].Partition.(*partition)
		switch {
		case !ok || p.s != c.s:
			return &store.RefusedError{Group: i, Run: -1, Err: errForeign}
		case c.s.owned[p.id] != p:
			return &store.RefusedError{Group: i, Run: -1, Err: fmt.Errorf("partition %d: %w", p.id, store.ErrFenced)}
		}
	}
	slices.SortFunc(order, func(a, b int) int { return int(c.groups[a].Partition.ID()) - int(c.groups[b].Partition.ID()) })
	for _, i := range order {
		p := c.groups[i].Partition.(*partition) //nolint:forcetypeassert // checked above
		c.ps, c.tokens = append(c.ps, int16(p.id)), append(c.tokens, p.token)
	}
	return nil
}

// build makes the change of all groups.
func (c *commit) build(ctx context.Context) error {
	if err := c.before(ctx); err != nil {
		return err
	}
	for i := range c.groups {
		g := &c.groups[i]
		for j := range g.Runs {
			x := &g.Runs[j]
			next, err := c.run(i, j, x)
			if err != nil {
				return c.refused(ctx, i, j, fmt.Errorf("run %q: %w", x.Run.ID, err))
			}
			c.news = append(c.news, next)
		}
		for j := range g.Schedules {
			if err := c.schedule(i, j, &g.Schedules[j]); err != nil {
				return c.refused(ctx, i, -1, err)
			}
		}
		for j := range g.Queues {
			if err := c.queue(i, &g.Queues[j]); err != nil {
				return c.refused(ctx, i, -1, err)
			}
		}
		if err := c.wakes(g.Partition.ID(), g.Wakes); err != nil {
			return c.refused(ctx, i, -1, err)
		}
	}
	return nil
}

// run adds the change of one run.
func (c *commit) run(i, j int, x *store.RunCommit) (*record, error) {
	old := c.olds[x.Run]
	switch {
	case !legal(x.Run.ID) || !legal(x.State.Workflow):
		return nil, badText("id or workflow", x.Run.ID+" "+x.State.Workflow)
	case x.Create && old != nil && old != absent && !x.Replace:
		return nil, store.ErrExists
	case !x.Create && (old == nil || old == absent):
		return nil, store.ErrNotFound
	case old == absent:
		old = nil
	}
	if x.Create && x.Expect != 0 {
		return nil, fmt.Errorf("%w: it is new", store.ErrConflict)
	}
	return c.addRun(i, j, x, old)
}

// before finds the records of the runs before the commit: in the cache, or in the database. A new run is not looked for: the
// database refuses it if it is there.
func (c *commit) before(ctx context.Context) error {
	c.olds = map[store.RunKey]*record{}
	var missing []store.RunKey
	for i := range c.groups {
		for j := range c.groups[i].Runs {
			x := &c.groups[i].Runs[j]
			r := c.s.cache.get(x.Run)
			if r == nil && (!x.Create || x.Replace) && legal(x.Run.ID) {
				missing = append(missing, x.Run)
			}
			if r != nil {
				c.olds[x.Run] = r
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return c.s.records(ctx, missing, c.olds)
}

// do makes the change.
func (c *commit) do(ctx context.Context) error {
	var lane int16
	select {
	case lane = <-c.s.lanes:
	case <-ctx.Done():
		return ctx.Err()
	}
	var err error
	if c.plain() {
		err = c.s.exec(ctx, callCommit, c.args(lane)...)
	} else {
		err = c.s.exec(ctx, callCommitAll, c.allArgs(lane)...)
	}
	c.s.lanes <- lane
	c.remember(err == nil)
	if err == nil {
		return nil
	}
	return c.translate(ctx, err)
}

// remember caches the runs, unless the commit has failed or the partition was lost while its answer was on the way.
func (c *commit) remember(done bool) {
	c.s.mu.RLock()
	defer c.s.mu.RUnlock()
	n := 0
	for i := range c.groups {
		g := &c.groups[i]
		mine := done && c.s.owned[g.Partition.ID()] == g.Partition
		for j := range g.Runs {
			if !mine {
				c.news[n] = nil
			}
			c.s.cache.put(g.Runs[j].Run, c.news[n])
			n++
		}
	}
}

// translate returns the error of Commit for an error of the database.
func (c *commit) translate(ctx context.Context, err error) error {
	switch at := detail(err) - 1; code(err) {
	case codeFenced:
		for i := range c.groups {
			if p := c.groups[i].Partition.ID(); int(p) == detail(err) {
				c.s.lost(c.groups[i].Partition)
				return &store.RefusedError{Group: i, Run: -1, Err: fmt.Errorf("partition %d: %w", p, store.ErrFenced)}
			}
		}
	case codeChanged:
		if at >= 0 && at < len(c.r.id) {
			return c.changed(c.r.group[at], c.r.run[at])
		}
	case codeGone:
		if d := &c.rest.d; at >= 0 && at < len(d.id) {
			return c.changed(d.group[at], d.run[at])
		}
	case codeCell:
		if q := &c.rest.q; at >= 0 && at < len(q.queue) {
			err := fmt.Errorf("queue of workflow %q: %w", q.queue[at], store.ErrConflict)
			return &store.RefusedError{Group: q.group[at], Run: -1, Err: err}
		}
	case codeSchedule:
		if s := &c.rest.s; at >= 0 && at < len(s.id) {
			return c.schedulesDiffer(ctx, s.group[at], s.at[at])
		}
	case codeExists:
		if refused := c.exists(ctx); refused != nil {
			return refused
		}
	}
	return c.s.wrote(err)
}

// changed refuses a run that is not as this store believed: the database has lost commits, or somebody has written to it.
func (c *commit) changed(group, run int) error {
	id := c.groups[group].Runs[run].Run.ID
	return &store.RefusedError{Group: group, Run: run, Err: fmt.Errorf("run %q: %w", id, store.ErrConflict)}
}

// exists finds the first new run that is there already.
func (c *commit) exists(ctx context.Context) error {
	var keys []store.RunKey
	for i := range c.groups {
		for j := range c.groups[i].Runs {
			if x := &c.groups[i].Runs[j]; x.Create {
				keys = append(keys, x.Run)
			}
		}
	}
	found := map[store.RunKey]*record{}
	if err := c.s.records(ctx, keys, found); err != nil {
		return nil // the first error says more
	}
	for i := range c.groups {
		for j := range c.groups[i].Runs {
			x := &c.groups[i].Runs[j]
			if r := found[x.Run]; x.Create && r != nil && r != absent {
				return &store.RefusedError{Group: i, Run: j, Err: fmt.Errorf("run %q: %w", x.Run.ID, store.ErrExists)}
			}
		}
	}
	return nil
}

// schedulesDiffer says how a schedule differs from what the commit expects.
func (c *commit) schedulesDiffer(ctx context.Context, group, at int) error {
	x := &c.groups[group].Schedules[at]
	old, err := c.s.Schedule(ctx, x.Schedule.Key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		err = x.Check(nil)
	case err == nil:
		err = x.Check(&old)
	}
	if err == nil {
		err = fmt.Errorf("schedule %q: %w", x.Schedule.Key.ID, store.ErrConflict)
	}
	return &store.RefusedError{Group: group, Run: -1, Err: err}
}

// refused refuses a commit before anything was written, after a look at the fences: a stale owner is told that it is one.
func (c *commit) refused(ctx context.Context, group, run int, err error) error {
	fenced := c.s.read(ctx, func(ctx context.Context) error {
		_, err := c.s.pool.Exec(ctx, "select wfhost.fence($1, $2)", c.ps, c.tokens)
		return err
	})
	if code(fenced) == codeFenced {
		return c.translate(ctx, fenced)
	}
	return &store.RefusedError{Group: group, Run: run, Err: err}
}

// records reads the records of runs, absent for those that are not there, and caches what this store owns.
func (s *Store) records(ctx context.Context, keys []store.RunKey, into map[store.RunKey]*record) error {
	ns, ids, begun := make([]int32, len(keys)), make([]string, len(keys)), make([]uint64, len(keys))
	for i, k := range keys {
		ns[i], ids[i], begun[i] = int32(k.Namespace), k.ID, s.cache.begin(k)
		into[k] = absent
	}
	err := s.read(ctx, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, `select r.rev, r.tail_first, r.listed, octet_length(r.tail), r.state
			from unnest($1::integer[], $2::text[]) x(ns, id) cross join lateral
			(select * from wfhost.run r where r.ns = x.ns and r.id = x.id offset 0) r`, ns, ids)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			r, err := scanRecord(rows)
			if err != nil {
				return err
			}
			into[r.state.Run] = r
		}
		return rows.Err()
	})
	if err != nil {
		return err
	}
	for i, k := range keys {
		s.remember(k, into[k], begun[i])
	}
	return nil
}

// remember caches a record that was read, if this store owns its partition.
func (s *Store) remember(run store.RunKey, r *record, begun uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.owned[run.Partition()] != nil {
		s.cache.fill(run, r, begun)
	}
}

// scanRecord reads a record from the columns rev, tail_first, listed, octet_length(tail) and state.
func scanRecord(row pgx.Row) (*record, error) {
	r := &record{}
	var first int64
	var listed *int16
	var state []byte
	err := row.Scan(&r.rev, &first, &listed, &r.tailBytes, &state)
	if err != nil {
		return nil, err
	}
	r.tailFirst = store.Seq(first)
	if listed != nil {
		r.listed = store.Status(*listed)
	}
	r.state, err = store.DecodeState(state)
	return r, err
}
