package postgres

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/transfer"
)

// imports adds records to empty tables, by COPY of many rows at a time.
type imports struct {
	s     *Store
	c     change // rows of runs and chunks, log lines, output and attributes, and the counts of all runs
	rows  map[string][][]any
	bytes int // of rows that were not written yet

	run    *record // whose records are being added, nil for none
	listed store.Status
	at     uint32 // the iteration of the piece
	part   piece  // the newest entries
}

// Import implements transfer.Store.
func (t Transfer) Import(context.Context) (transfer.Importer, error) {
	if t.live {
		return nil, errLive
	}
	return &imports{s: t.Store, rows: map[string][][]any{}}, nil
}

// importBytes is the size at which rows are written. rowBytes is what a row counts for besides its records.
const (
	importBytes = 8 << 20
	rowBytes    = 256
)

// tableColumns are those of the tables that have rows in imports.rows.
var tableColumns = map[string][]string{
	"namespace": {"id", "created", "name"}, "seal_key": {"id", "data"}, "token": {"hash", "data"}, "quota": {"ns", "data"},
	"retention": {"ns", "workflow", "data"}, "limits": {"ns", "workflow", "data"}, "module": {"digest", "unused", "info", "wasm"},
	"version": {"ns", "number", "imported", "deleted", "workflow", "module", "data"}, "inbox": {"p", "seq", "command"},
	"schedule": {"revision", "wake", "due", "ns", "p", "id", "data"}, "wake": {"wake", "due", "ns", "p", "kind", "id"},
	"hook": {"ns", "token", "holder"}, "cell": {"ns", "queue", "key", "value"},
	"count": {"n", "ns", "version", "status", "lane", "workflow"},
}

// Add implements transfer.Importer.
func (x *imports) Add(ctx context.Context, r *transfer.Record) error {
	if !legal(r.ID) {
		return badText("id", r.ID)
	}
	x.bytes += rowBytes + len(r.Data) + len(r.Key) + len(r.Wasm)
	if x.bytes >= importBytes {
		if err := x.flush(ctx); err != nil {
			return err
		}
		x.bytes = 0
	}
	switch r.Kind {
	case transfer.Run:
		return x.begin(r)
	case transfer.Entry:
		return x.entry(r)
	case transfer.LogLine:
		x.c.rest.l.add(r.Run(), r.Seq, clone(r.Data))
		return nil
	case transfer.Output:
		x.c.rest.o.add(r.Run(), r.Seq, clone(r.Data))
		return nil
	case transfer.Partition:
		return x.s.failed(x.s.fenced(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "update wfhost.partition set epoch = $2, token = null, owner = '' where p = $1",
				int16(r.Partition), int64(r.Epoch))
			if err == nil {
				_, err = tx.Exec(ctx, "update wfhost.inbox_seq set newest = $2 where p = $1", int16(r.Partition), int64(r.Seq))
			}
			return err
		}))
	}
	if err := x.end(); err != nil {
		return err
	}
	return x.row(r)
}

func clone(b []byte) []byte { return append([]byte{}, b...) }

// put adds a row.
func (x *imports) put(table string, row ...any) error {
	x.rows[table] = append(x.rows[table], row)
	return nil
}

// row adds a record that belongs to no run.
func (x *imports) row(r *transfer.Record) error {
	data, ns := clone(r.Data), int32(r.Namespace)
	switch r.Kind {
	case transfer.Namespace:
		n, err := store.DecodeNamespace(data)
		if err != nil {
			return err
		}
		return x.put("namespace", int32(n.ID), n.CreatedUnixMs, n.Name)
	case transfer.SealKey:
		k, err := store.DecodeKey(data)
		if err != nil {
			return err
		}
		return x.put("seal_key", k.ID, data)
	case transfer.Token:
		t, err := store.DecodeToken(data)
		if err != nil {
			return err
		}
		return x.put("token", t.Hash[:], data)
	case transfer.Quota:
		q, err := store.DecodeQuota(data)
		if err != nil {
			return err
		}
		return x.put("quota", int32(q.Namespace), data)
	case transfer.Retention:
		t, err := store.DecodeRetention(data)
		if err != nil {
			return err
		}
		return x.put("retention", int32(t.Namespace), t.Workflow, data)
	case transfer.Limits:
		l, err := store.DecodeLimits(data)
		if err != nil {
			return err
		}
		return x.put("limits", int32(l.Namespace), l.Workflow, data)
	case transfer.Module:
		return x.put("module", clone(r.Key), false, data, clone(r.Wasm))
	case transfer.Version:
		v, err := store.DecodeVersion(data)
		if err != nil {
			return err
		}
		return x.put("version", int32(v.Namespace), int32(v.Number), v.Imported, v.Deleted, v.Workflow, v.Module[:], data)
	case transfer.Command:
		return x.put("inbox", int16(r.Partition), int64(r.Seq), data)
	case transfer.Schedule:
		s, err := store.DecodeSchedule(data)
		if err != nil {
			return err
		}
		wake, due := wakeOf(s.WakeUnixMs)
		return x.put("schedule", int64(s.Revision), wake, due, ns, int16(s.Key.Partition()), s.Key.ID, data)
	case transfer.Wake:
		w := &r.Wake.Key
		return x.put("wake", w.UnixMs, r.Wake.DueUnixMs, int32(w.Key.Namespace), int16(r.Partition), int16(w.Kind), w.Key.ID)
	case transfer.Hook:
		return x.put("hook", ns, r.ID, data)
	case transfer.Cell:
		return x.put("cell", ns, r.ID, clone(r.Key), data)
	}
	return fmt.Errorf("%w: records of kind %d", store.ErrVersion, r.Kind)
}

// begin begins a run. Its row is added by end, since it has the end of the journal.
func (x *imports) begin(r *transfer.Record) error {
	if err := x.end(); err != nil {
		return err
	}
	st, err := store.DecodeState(r.Data)
	x.run, x.listed = &record{state: st}, r.Listed
	x.at, x.part = 0, piece{}
	if err == nil && !legal(st.Workflow) {
		err = badText("workflow", st.Workflow)
	}
	return err
}

// entry adds an entry to the piece, or begins the next piece.
func (x *imports) entry(r *transfer.Record) error {
	if len(x.part.data) > 0 && (r.Iteration != x.at || len(x.part.data) >= pieceBytes) {
		x.endPiece()
	}
	if len(x.part.data) == 0 {
		x.at, x.part.first = r.Iteration, store.Seq(r.Seq)
	}
	x.part.data = append(binary.AppendUvarint(x.part.data, uint64(len(r.Data))), r.Data...)
	return nil
}

func (x *imports) endPiece() {
	x.c.addChunks(x.run.state.Run, x.at, []piece{x.part})
	x.part = piece{}
}

// end adds the row of the run.
func (x *imports) end() error {
	r := x.run
	if r == nil {
		return nil
	}
	var tail []byte
	r.tailFirst = r.state.Length
	switch {
	case len(x.part.data) == 0:
	case x.at == r.state.Iteration && len(x.part.data) <= tailBytes:
		tail, r.tailFirst = x.part.data, x.part.first
	default:
		x.endPiece()
	}
	x.run, x.part = nil, piece{}
	if err := x.c.add(0, 0, r.state.Run, r, nil, tail, replaceTail); err != nil {
		return err
	}
	x.c.r.listed[len(x.c.r.listed)-1] = nullStatus(x.listed)
	return nil
}

// flush writes all rows.
func (x *imports) flush(ctx context.Context) error {
	r, k, l, o, a := &x.c.r, &x.c.c, &x.c.rest.l, &x.c.rest.o, &x.c.rest.a
	for _, t := range []struct {
		table   string
		columns []string
		n       int
		row     func(i int) []any
	}{
		{"run", []string{"created", "wake", "due", "ended", "tail_first", "ns", "rev", "iteration", "version", "p", "status", "listed",
			"busy", "timer", "deleted", "id", "workflow", "attributes", "tail", "state"}, len(r.id), x.runRow},
		{"chunk", []string{"first", "ns", "iteration", "id", "data"}, len(k.id),
			func(i int) []any { return []any{k.first[i], k.ns[i], k.iteration[i], k.id[i], k.data[i]} }},
		{"log", []string{"n", "ns", "id", "data"}, len(l.id), l.row},
		{"output", []string{"n", "ns", "id", "data"}, len(o.id), o.row},
		{"attribute", []string{"ns", "created", "key", "value", "id"}, len(a.id),
			func(i int) []any { return []any{a.ns[i], a.created[i], a.key[i], a.value[i], a.id[i]} }},
	} {
		if err := x.copy(ctx, t.table, t.columns, t.n, t.row); err != nil {
			return err
		}
	}
	for table, rows := range x.rows {
		if err := x.copy(ctx, table, tableColumns[table], len(rows), func(i int) []any { return rows[i] }); err != nil {
			return err
		}
	}
	clear(x.rows)
	x.c = change{counts: x.c.counts}
	return nil
}

// runRow returns the row of a new run.
func (x *imports) runRow(i int) []any {
	r := &x.c.r
	status, deleted := store.Status(r.status[i]), r.deleted[i]
	timer := !deleted && (status == store.Sleeping || status == store.Waiting) && r.wake[i] != nil
	return []any{r.created[i], r.wake[i], r.due[i], r.ended[i], r.tailFirst[i], r.ns[i], int64(0), r.iteration[i], r.version[i],
		r.p[i], r.status[i], r.listed[i], !deleted && status.Busy(), timer, deleted, r.id[i], r.workflow[i], r.attributes[i], r.tail[i],
		r.state[i]}
}

func (x *lines) row(i int) []any { return []any{x.n[i], x.ns[i], x.id[i], x.data[i]} }

func (x *imports) copy(ctx context.Context, table string, columns []string, n int, row func(i int) []any) error {
	if n == 0 {
		return nil
	}
	i := -1
	err := x.s.fenced(ctx, func(tx pgx.Tx) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"wfhost", table}, columns, pgx.CopyFromFunc(func() ([]any, error) {
			i++
			if i == n {
				return nil, nil
			}
			return row(i), nil
		}))
		return err
	})
	if err != nil {
		return fmt.Errorf("table wfhost.%s: %w", table, x.s.failed(err))
	}
	return nil
}

// Finish implements transfer.Importer.
func (x *imports) Finish(ctx context.Context) error {
	if err := x.end(); err != nil {
		return err
	}
	for k, n := range x.c.counts {
		x.rows["count"] = append(x.rows["count"], []any{n, int32(k.ns), int32(k.version), int16(k.status), int16(0), k.workflow})
	}
	if err := x.flush(ctx); err != nil {
		return err
	}
	err := x.s.fenced(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `update wfhost.module m set unused = true
			where not exists (select 1 from wfhost.version v where v.module = m.digest and not v.deleted)`)
		return err
	})
	if err == nil {
		// The planner knows nothing of the new rows. A role that does not own the tables may not do it.
		_, _ = x.s.pool.Exec(ctx, "analyze wfhost.run, wfhost.chunk, wfhost.log, wfhost.output, wfhost.attribute")
	}
	return x.s.failed(err)
}
