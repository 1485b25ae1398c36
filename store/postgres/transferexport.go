package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/transfer"
)

// Export implements transfer.Store. All of it is one snapshot: several transactions of one snapshot read the tables of runs
// at the same time, in the same order.
func (t Transfer) Export(ctx context.Context, take func(*transfer.Record) error) (err error) {
	var all [4]reading
	defer func() {
		for i := range all {
			all[i].close()
		}
	}()
	snapshot := ""
	for i := range all {
		if err := all[i].open(ctx, t.Store, &snapshot); err != nil {
			return t.failed(err)
		}
	}
	x := &export{ctx: ctx, tx: all[0].tx, take: take}
	runs := func() error { return x.runs(&all) }
	for _, step := range []func() error{x.settings, x.modules, x.partitions, runs, x.inboxes, x.rest} {
		if err := step(); err != nil {
			return t.exported(err)
		}
	}
	return nil
}

// refused is an error of take.
type refused struct{ error }

func (e refused) Unwrap() error { return e.error }

func (s *Store) exported(err error) error {
	if r, ok := errors.AsType[refused](err); ok {
		return r.error
	}
	if errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrVersion) {
		return fmt.Errorf("%s: %w", s.Place(), err)
	}
	return s.failed(err)
}

// reading is a transaction that only reads. Its connection is not of the pool, whose size the user sets.
type reading struct {
	conn *pgx.Conn
	tx   pgx.Tx
}

// open begins a transaction with a snapshot, which the first one takes.
func (r *reading) open(ctx context.Context, s *Store, snapshot *string) (err error) {
	cfg := s.pool.Config().ConnConfig // a copy
	prepareConn(cfg)
	r.conn, err = pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	r.tx, err = r.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	if *snapshot != "" {
		if _, err := r.tx.Exec(ctx, "set transaction snapshot '"+*snapshot+"'"); err != nil { // letters, digits and dashes
			return err
		}
	}
	// The transaction lasts as long as it takes to write the other side.
	return r.tx.QueryRow(ctx, `select pg_export_snapshot() from (select set_config('statement_timeout', '0', true),
		set_config('idle_in_transaction_session_timeout', '0', true)) x`).Scan(snapshot)
}

// close ends the transaction with its connection.
func (r *reading) close() {
	if r.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
	defer cancel()
	_ = r.conn.Close(ctx) // it has only read
}

// export walks over the tables.
type export struct {
	ctx  context.Context //nolint:containedctx // for as long as Export takes
	tx   pgx.Tx
	take func(*transfer.Record) error
	r    transfer.Record
}

// give passes a record to take.
func (x *export) give(r transfer.Record) error {
	x.r = r // so that none is allocated
	if err := x.take(&x.r); err != nil {
		return refused{err}
	}
	return nil
}

// each calls visit for each row of a query, whose columns are in into.
func (x *export) each(sql string, into []any, visit func() error) error {
	rows, err := x.tx.Query(x.ctx, sql)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, into, visit)
	return err
}

func (x *export) settings() error {
	var n store.Namespace
	err := x.each("select id, name, created from wfhost.namespace", []any{&n.ID, &n.Name, &n.CreatedUnixMs}, func() error {
		return x.give(transfer.Record{Kind: transfer.Namespace, Data: store.AppendNamespace(nil, &n)})
	})
	if err != nil {
		return err
	}
	for _, t := range []struct {
		table string
		kind  transfer.Kind
	}{{"seal_key", transfer.SealKey}, {"token", transfer.Token}, {"quota", transfer.Quota}, {"retention", transfer.Retention},
		{"limits", transfer.Limits}} {
		if err := x.table(t.table, t.kind); err != nil {
			return err
		}
	}
	return nil
}

// table passes a table that has its records in the column data.
func (x *export) table(table string, kind transfer.Kind) error {
	var data []byte
	return x.each("select data from wfhost."+table, []any{&data}, func() error {
		return x.give(transfer.Record{Kind: kind, Data: data})
	})
}

func (x *export) modules() error {
	var digest, info, wasm []byte
	err := x.each("select digest, info, wasm from wfhost.module", []any{&digest, &info, &wasm}, func() error {
		return x.give(transfer.Record{Kind: transfer.Module, Key: digest, Data: info, Wasm: wasm})
	})
	if err != nil {
		return err
	}
	return x.table("version", transfer.Version)
}

func (x *export) partitions() error {
	var p int16
	var epoch, seq int64
	return x.each("select p, epoch, newest from wfhost.partition join wfhost.inbox_seq using (p)", []any{&p, &epoch, &seq},
		func() error {
			return x.give(transfer.Record{Kind: transfer.Partition, Partition: store.PartitionID(p), Epoch: store.Epoch(epoch),
				Seq: uint64(seq)})
		})
}

func (x *export) inboxes() error {
	var p int16
	var seq int64
	var data []byte
	return x.each("select p, seq, command from wfhost.inbox", []any{&p, &seq, &data}, func() error {
		if c, err := store.DecodeCommand(data); err == nil {
			c.Seq = 0
			data = store.AppendCommand(nil, &c)
		}
		return x.give(transfer.Record{Kind: transfer.Command, Partition: store.PartitionID(p), Seq: uint64(seq), Data: data})
	})
}

// rest passes what has a namespace and belongs to no run.
func (x *export) rest() error {
	var ns int32
	var id string
	var key, data []byte
	give := func(kind transfer.Kind) error {
		return x.give(transfer.Record{Kind: kind, Namespace: store.NamespaceID(ns), ID: id, Key: key, Data: data})
	}
	err := x.each("select ns, id, data from wfhost.schedule", []any{&ns, &id, &data},
		func() error { return give(transfer.Schedule) })
	if err != nil {
		return err
	}
	var p, kind int16
	var wake, due int64
	err = x.each("select p, kind, ns, id, wake, due from wfhost.wake", []any{&p, &kind, &ns, &id, &wake, &due}, func() error {
		return x.give(transfer.Record{Kind: transfer.Wake, Partition: store.PartitionID(p), Wake: store.Wake{DueUnixMs: due,
			Key: store.WakeKey{UnixMs: wake, Kind: store.WakeKind(kind), Key: store.RunKey{Namespace: store.NamespaceID(ns), ID: id}}}})
	})
	if err != nil {
		return err
	}
	err = x.each("select ns, token, holder from wfhost.hook", []any{&ns, &id, &data}, func() error { return give(transfer.Hook) })
	if err != nil {
		return err
	}
	return x.each("select ns, queue, key, value from wfhost.cell", []any{&ns, &id, &key, &data},
		func() error { return give(transfer.Cell) })
}

// cursor is at a row of a table that is ordered by run.
type cursor struct {
	rows   pgx.Rows
	into   []any
	ok     bool // there is a row
	ns     int32
	id     string
	at     int32 // iteration, of table chunk
	number int64 // first seq or index
	data   []byte
}

// newCursor goes to the first row of a query whose columns begin with ns and id.
func newCursor(ctx context.Context, tx pgx.Tx, sql string, into func(c *cursor) []any) (*cursor, error) {
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	c := &cursor{rows: rows}
	c.into = append([]any{&c.ns, &c.id}, into(c)...)
	return c, c.next()
}

func (c *cursor) next() error {
	c.ok = c.rows.Next()
	if !c.ok {
		return c.rows.Err()
	}
	return c.rows.Scan(c.into...)
}

func (c *cursor) compare(o *cursor) int {
	return cmp.Or(cmp.Compare(c.ns, o.ns), strings.Compare(c.id, o.id))
}

// runs merges the tables of runs.
func (x *export) runs(all *[4]reading) error {
	var listed *int16
	var tail []byte
	run, err := newCursor(x.ctx, all[0].tx,
		"select ns, id, iteration, listed, tail_first, tail, state from wfhost.run order by ns, id",
		func(c *cursor) []any { return []any{&c.at, &listed, &c.number, &tail, &c.data} })
	if err != nil {
		return err
	}
	defer run.rows.Close()
	plain := func(c *cursor) []any { return []any{&c.number, &c.data} }
	var lists [3]*cursor
	for i, sql := range []string{"select ns, id, iteration, first, data from wfhost.chunk order by ns, id, iteration, first",
		"select ns, id, n, data from wfhost.log order by ns, id, n", "select ns, id, n, data from wfhost.output order by ns, id, n"} {
		into := plain
		if i == 0 {
			into = func(c *cursor) []any { return []any{&c.at, &c.number, &c.data} }
		}
		lists[i], err = newCursor(x.ctx, all[i+1].tx, sql, into)
		if err != nil {
			return err
		}
		defer lists[i].rows.Close()
	}
	for ; run.ok && err == nil; err = run.next() {
		r := transfer.Record{Kind: transfer.Run, Namespace: store.NamespaceID(run.ns), ID: run.id, Data: run.data}
		if listed != nil {
			r.Listed = store.Status(*listed)
		}
		if err := x.give(r); err != nil {
			return err
		}
		if err := x.records(run, &lists, tail); err != nil {
			return err
		}
	}
	for _, c := range lists {
		if err == nil && c.ok {
			err = orphan(c)
		}
	}
	return err
}

func orphan(c *cursor) error {
	return fmt.Errorf("%w: a record of run %q of namespace %d, which does not exist", store.ErrCorrupt, c.id, c.ns)
}

// records passes the journal, the log and the output of a run.
func (x *export) records(run *cursor, lists *[3]*cursor, tail []byte) error {
	for i, kind := range []transfer.Kind{transfer.Entry, transfer.LogLine, transfer.Output} {
		var err error
		c := lists[i]
		for ; err == nil && c.ok && c.compare(run) <= 0; err = c.next() {
			r := transfer.Record{Kind: kind, Namespace: store.NamespaceID(c.ns), ID: c.id, Seq: uint64(c.number), Data: c.data}
			switch {
			case c.compare(run) < 0:
				return orphan(c)
			case i == 0:
				r.Iteration = uint32(c.at)
				err = x.entries(r)
			default:
				err = x.give(r)
			}
			if err != nil {
				return err
			}
		}
		if err == nil && i == 0 {
			err = x.entries(transfer.Record{Kind: kind, Namespace: store.NamespaceID(run.ns), ID: run.id, Iteration: uint32(run.at),
				Seq: uint64(run.number), Data: tail})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entries passes the entries of a chunk or tail.
func (x *export) entries(r transfer.Record) error {
	for chunk := r.Data; len(chunk) > 0; r.Seq++ {
		n, size := binary.Uvarint(chunk)
		if size <= 0 || n > uint64(len(chunk)-size) {
			return fmt.Errorf("%w: run %q of namespace %d: chunk ends within entry %d", store.ErrCorrupt, r.ID, r.Namespace, r.Seq)
		}
		r.Data, chunk = chunk[size:size+int(n)], chunk[size+int(n):]
		if err := x.give(r); err != nil {
			return err
		}
	}
	return nil
}
