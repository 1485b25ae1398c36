package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/wfhost/wfhost/store"
)

// SetLimits sets or removes the limits of a workflow, and sends a command.
func (s *Store) SetLimits(ctx context.Context, l store.Limits, tell store.Command) error {
	if !legal(l.Workflow) {
		return badText("workflow", l.Workflow)
	}
	var out outbox
	if err := out.add([]store.Command{tell}); err != nil {
		return err
	}
	var data []byte // null removes
	if len(l.Data) > 0 {
		if err := store.CheckLimits(0, 0, &l); err != nil {
			return err
		}
		data = store.AppendLimits(nil, &l)
	}
	s.settings.forget()
	defer s.settings.forget()
	var others, own int
	args := append([]any{s.mine(), int32(l.Namespace), l.Workflow, data, store.MaxLimits, store.MaxLimitsOfOne}, out.args()...)
	err := s.write(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		const sql = "select others, own from wfhost.set_limits($1,$2,$3,$4,$5,$6,$7,$8,$9)"
		return c.QueryRow(ctx, sql, args...).Scan(&others, &own)
	})
	if err != nil {
		return s.wrote(err)
	}
	if data == nil {
		return nil
	}
	return store.CheckLimits(others, own, &l)
}

// LimitsOf reads the limits of a workflow.
func (s *Store) LimitsOf(ctx context.Context, ns store.NamespaceID, workflow string) (store.Limits, error) {
	none := store.Limits{Namespace: ns, Workflow: workflow}
	if err := s.usable(); err != nil || !legal(workflow) {
		return none, err
	}
	return recall(s, limitsKey{int32(ns), workflow}, func() (store.Limits, error) {
		list, err := readAll(ctx, s, store.DecodeLimits, "select data from wfhost.limits where ns = $1 and workflow = $2", int32(ns),
			workflow)
		if err != nil || len(list) == 0 {
			return none, err
		}
		return list[0], nil
	})
}

// Limits returns the limits of a namespace.
func (s *Store) Limits(ctx context.Context, ns store.NamespaceID) ([]store.Limits, error) {
	return readAll(ctx, s, store.DecodeLimits, "select data from wfhost.limits where ns = $1 order by workflow", int32(ns))
}

// Cells reads cells of a queue.
func (s *Store) Cells(ctx context.Context, q store.CellQuery) (list []store.Cell, err error) {
	if !legal(q.Queue.ID) || q.To != nil && bytes.Compare(q.From, q.To) >= 0 {
		return nil, s.usable()
	}
	from := q.From
	if from == nil {
		from = []byte{}
	}
	err = s.read(ctx, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, `select key, value from wfhost.cell where ns = $1 and queue = $2 and key >= $3
			and ($4::bytea is null or key < $4) order by key limit $5`, int32(q.Queue.Namespace), q.Queue.ID, from, q.To, max(q.Limit, 0))
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[store.Cell])
		return err
	})
	return list, err
}

// SetCells changes cells of a queue without an owner.
func (s *Store) SetCells(ctx context.Context, x store.QueueSet) error {
	if err := x.CheckCells(); err != nil {
		return err
	}
	var c change
	if err := c.queue(0, &x); err != nil {
		return err
	}
	q, y := &c.rest.q, &c.rest.y
	const sql = "select wfhost.set_cells($1,$2,$3,$4,$5,$6,$7,$8,$9)"
	args := []any{q.ns, q.queue, q.key, q.value, y.ns, y.queue, y.key, y.value, y.expired}
	conflict := fmt.Errorf("queue of workflow %q: %w", x.Queue.ID, store.ErrConflict)
	if x.Setting {
		return s.settle(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, sql, args...)
			if code(err) == codeCell {
				return conflict
			}
			return err
		})
	}
	err := s.exec(ctx, sql, args...)
	if code(err) == codeCell {
		return conflict
	}
	return s.wrote(err)
}

// Schedule reads a schedule.
func (s *Store) Schedule(ctx context.Context, key store.RunKey) (x store.Schedule, err error) {
	err = pgx.ErrNoRows
	if legal(key.ID) {
		err = s.read(ctx, func(ctx context.Context) error {
			var b []byte
			err := s.pool.QueryRow(ctx, "select data from wfhost.schedule where ns = $1 and id = $2", int32(key.Namespace),
				key.ID).Scan(&b)
			if err == nil {
				x, err = store.DecodeSchedule(b)
			}
			return err
		})
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return store.Schedule{}, fmt.Errorf("schedule %q: %w", key.ID, store.ErrNotFound)
	}
	return x, err
}

// Schedules returns a page of schedules.
func (s *Store) Schedules(ctx context.Context, q store.ScheduleQuery) ([]store.Schedule, error) {
	if !legal(q.After) {
		return nil, badText("schedule", q.After)
	}
	return readAll(ctx, s, store.DecodeSchedule, `select data from (
		select id, data, sum(octet_length(data)) over (order by id) - octet_length(data) as before from (
			select id, data from wfhost.schedule where ns = $1 and id > $2 order by id limit $3) y
		) x where before < $4 order by id`, int32(q.Namespace), q.After, max(q.Limit, 0), store.MaxPageBytes)
}
