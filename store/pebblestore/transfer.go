package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/transfer"
)

// Transfer is a store on disk as one side of a copy.
type Transfer struct {
	*Store
	place string
}

var (
	_ transfer.Store  = Transfer{}
	_ transfer.Copies = Transfer{}
)

// OpenTransfer opens or creates the store in a directory, whatever its mark says. place names it for people. store.ErrLocked if a
// process has it open.
func OpenTransfer(dir, place string, opts Options) (Transfer, error) {
	opts.transfer = true
	s, err := Open(dir, opts)
	return Transfer{s, place}, err
}

// Tables of a partition and of the whole store that a copy has, and tables that Import makes anew from these; d is not needed any
// more. Each table of this format is in one of them.
const (
	copiedTables  = "sjwiohguye" + "NAmMWBRQLVK"
	derivedTables = "rcbkqntxpd" + "PUO"
)

// metaNames are the names of table m. `uses` is made anew, `namespace` is the greatest id.
var metaNames = []string{"copy", "format", "index", "namespace", "uses"}

// Place implements transfer.Store.
func (t Transfer) Place() string { return t.place }

// Mark implements transfer.Store.
func (t Transfer) Mark(context.Context) (*transfer.Mark, error) {
	v, err := t.get(copyKey)
	if err != nil {
		return nil, err
	}
	return decodeMark(v)
}

// SetMark implements transfer.Store.
func (t Transfer) SetMark(_ context.Context, m *transfer.Mark) error {
	return t.setCopy(m != nil, func(b *pebble.Batch) error {
		if m == nil {
			return b.Delete(copyKey, nil)
		}
		return b.Set(copyKey, append([]byte{markTransfer}, m.Encode()...), nil)
	})
}

// Holds implements transfer.Store. What a host writes before anybody uses it does not count: epochs and records of table m.
func (t Transfer) Holds(context.Context) (what string, err error) {
	err = t.scan(nil, nil, func(k, _ []byte) (bool, error) {
		if len(k) < tableEnd || k[tableEnd-1] != store.TableEpoch && k[tableEnd-1] != store.TableMeta {
			what = "records"
			if len(k) >= tableEnd {
				what = fmt.Sprintf("records of table %q", k[tableEnd-1])
			}
		}
		return what == "", nil
	})
	return what, err
}

// tableEnd is the length of the prefix that ends with the table.
const tableEnd = 7

// Clear implements transfer.Store.
func (t Transfer) Clear(context.Context) error {
	b := t.db.NewBatch()
	defer t.drop(b)
	from := []byte{0}
	for _, kept := range [][]byte{copyKey, formatKey} { // by their order
		_ = b.DeleteRange(from, kept, nil)
		from = append(slices.Clone(kept), 0)
	}
	_ = b.DeleteRange(from, bytes.Repeat([]byte{0xff}, tableEnd), nil)
	return t.sync(b, nil)
}

// Export implements transfer.Store.
func (t Transfer) Export(ctx context.Context, take func(*transfer.Record) error) error {
	c := newChecker(ctx, t.Store, false)
	for _, step := range []func() error{c.namespaces, c.tables, c.metaNames} {
		if err := step(); err != nil {
			return err
		}
	}
	if list := c.report.Problems; len(list) > 0 {
		return fmt.Errorf("%s: %w: %s; `wfhost verify` says more", t.place, store.ErrCorrupt, list[0].Text)
	}
	x := &export{checker: c, take: take}
	for _, step := range []func() error{x.settings, x.modules, x.partitions, x.runs, x.inboxes, x.schedules, x.wakes, x.hooks,
		x.cells} {
		if err := step(); err != nil {
			return unsound(err)
		}
	}
	return nil
}

// metaNames finds records of table m that this release does not know.
func (c *checker) metaNames() error {
	return c.each(0, store.NoPartition, store.TableMeta, func(rest, _ []byte) error {
		if !slices.Contains(metaNames, string(rest)) {
			c.whole("key", "there is a record %q of table m, which is none", rest)
		}
		return nil
	})
}

// export walks over a store. The namespaces and tables are checked.
type export struct {
	*checker
	take func(*transfer.Record) error
	r    transfer.Record
}

// give passes a record to take.
func (x *export) give(r transfer.Record) error {
	x.r = r // so that none is allocated
	return x.take(&x.r)
}

// table passes the records of a table of the whole store.
func (x *export) table(table byte, kind transfer.Kind) error {
	return x.each(0, store.NoPartition, table, func(_, v []byte) error { return x.give(transfer.Record{Kind: kind, Data: v}) })
}

func (x *export) settings() error {
	for _, t := range []struct {
		table byte
		kind  transfer.Kind
	}{{store.TableNamespace, transfer.Namespace}, {store.TableKey, transfer.SealKey}, {store.TableToken, transfer.Token},
		{store.TableQuota, transfer.Quota}, {store.TableRetention, transfer.Retention}, {store.TableLimits, transfer.Limits}} {
		if err := x.table(t.table, t.kind); err != nil {
			return err
		}
	}
	return nil
}

func (x *export) modules() error {
	err := x.each(0, store.NoPartition, store.TableModule, func(rest, v []byte) error {
		if len(rest) != len(store.Digest{}) {
			return fmt.Errorf("%w: the key of a module has %d bytes", store.ErrCorrupt, len(rest))
		}
		wasm, err := modules{x.s}.Get(x.ctx, store.Digest(rest))
		if err != nil {
			return err
		}
		return x.give(transfer.Record{Kind: transfer.Module, Key: rest, Data: v, Wasm: wasm})
	})
	if err != nil {
		return err
	}
	for _, ns := range x.list {
		err := x.each(ns, store.NoPartition, store.TableWorkflow, func(_, v []byte) error {
			return x.give(transfer.Record{Kind: transfer.Version, Data: v})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *export) partitions() error {
	for p := range store.PartitionID(store.Partitions) {
		epoch, err := x.s.get(epochKey(p))
		if err == nil && epoch != nil && len(epoch) != 8 {
			err = fmt.Errorf("%w: epoch of partition %d", store.ErrCorrupt, p)
		}
		if err != nil {
			return err
		}
		r := transfer.Record{Kind: transfer.Partition, Partition: p}
		if epoch != nil {
			r.Epoch = store.Epoch(binary.BigEndian.Uint64(epoch))
		}
		newest, err := x.s.newestCommand(p)
		if err != nil {
			return err
		}
		r.Seq = uint64(newest)
		if err := x.give(r); err != nil {
			return err
		}
	}
	return nil
}

func (x *export) inboxes() error {
	for p := range store.PartitionID(store.Partitions) {
		err := x.each(0, p, store.TableInbox, func(rest, v []byte) error {
			r := transfer.Record{Kind: transfer.Command, Partition: p, Seq: binary.BigEndian.Uint64(rest), Data: v}
			if cmd, err := store.DecodeCommand(v); err == nil {
				cmd.Seq = 0
				r.Data = store.AppendCommand(nil, &cmd)
			}
			return x.give(r)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *export) wakes() error {
	for p := range store.PartitionID(store.Partitions) {
		prefix := store.AppendPrefix(nil, 0, p, store.TableWake)
		err := x.s.scan(prefix, store.PrefixEnd(prefix), func(k, v []byte) (bool, error) {
			key, err := store.ParseWakeIndexKey(k)
			if err == nil && len(v) != 8 {
				err = fmt.Errorf("%w: wake of %q", store.ErrCorrupt, key.Key.ID)
			}
			if err != nil || key.Kind == store.WakeRun || key.Kind == store.WakeSchedule {
				return err == nil, err
			}
			return true, x.give(transfer.Record{Kind: transfer.Wake, Partition: p,
				Wake: store.Wake{Key: key, DueUnixMs: int64(binary.BigEndian.Uint64(v))}})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// owned visits the records of a table that is kept by namespace and partition.
func (x *export) owned(table byte, visit func(ns store.NamespaceID, rest, v []byte) error) error {
	for _, ns := range x.list {
		for p := range store.PartitionID(store.Partitions) {
			err := x.each(ns, p, table, func(rest, v []byte) error { return visit(ns, rest, v) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *export) schedules() error {
	return x.owned(store.TableSchedule, func(ns store.NamespaceID, rest, v []byte) error {
		return x.give(transfer.Record{Kind: transfer.Schedule, Namespace: ns, ID: string(rest), Data: v})
	})
}

func (x *export) hooks() error {
	return x.owned(store.TableHook, func(ns store.NamespaceID, rest, v []byte) error {
		return x.give(transfer.Record{Kind: transfer.Hook, Namespace: ns, ID: string(rest), Data: v})
	})
}

func (x *export) cells() error {
	return x.owned(store.TableQueue, func(ns store.NamespaceID, rest, v []byte) error {
		queue, cell, err := store.ParseQueueKey(rest)
		if err != nil {
			return err
		}
		return x.give(transfer.Record{Kind: transfer.Cell, Namespace: ns, ID: queue, Key: cell, Data: v})
	})
}
