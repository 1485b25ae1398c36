package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/transfer"
)

// runs passes all runs, each with its journals, log and output: these tables have the same order.
func (x *export) runs() error {
	for _, ns := range x.list {
		for p := range store.PartitionID(store.Partitions) {
			if err := x.runsOf(ns, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *export) runsOf(ns store.NamespaceID, p store.PartitionID) (err error) {
	var its [3]*pebble.Iterator
	tables := [...]byte{store.TableJournal, store.TableLog, store.TableOutput}
	for i, table := range tables {
		prefix := store.AppendPrefix(nil, ns, p, table)
		its[i], err = x.s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: store.PrefixEnd(prefix)})
		if err != nil {
			return err
		}
		defer func() { err = firstError(err, its[i].Close()) }()
		its[i].First()
	}
	err = x.each(ns, p, store.TableState, func(rest, v []byte) error {
		run := store.RunKey{Namespace: ns, ID: string(rest)}
		st, err := decodeStored(v)
		if err != nil {
			return fmt.Errorf("run %q of namespace %d: %w", run.ID, ns, err)
		}
		if st.state.Deleted {
			st.listed = 0
		}
		if err := x.give(transfer.Record{Kind: transfer.Run, Namespace: ns, ID: run.ID, Listed: st.listed, Data: v[8:]}); err != nil {
			return err
		}
		for i, table := range tables {
			if err := x.follow(its[i], run, table); err != nil {
				return fmt.Errorf("run %q of namespace %d: %w", run.ID, ns, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range its {
		if its[i].Valid() {
			return fmt.Errorf("%w: the record %q of table %q belongs to no run", store.ErrCorrupt, its[i].Key()[tableEnd:], tables[i])
		}
		if err := its[i].Error(); err != nil {
			return err
		}
	}
	return nil
}

// follow passes the records of a run in one table. The iterator is at the first one that was not passed.
func (x *export) follow(it *pebble.Iterator, run store.RunKey, table byte) error {
	prefix := append(store.RunTableKey(run, table), 0)
	for ; it.Valid(); it.Next() {
		k := it.Key()
		if !bytes.HasPrefix(k, prefix) {
			if bytes.Compare(k, prefix) < 0 {
				return fmt.Errorf("%w: the record %q of table %q belongs to no run", store.ErrCorrupt, k[tableEnd:], table)
			}
			return nil
		}
		r := transfer.Record{Namespace: run.Namespace, ID: run.ID, Seq: binary.BigEndian.Uint64(k[len(k)-8:]), Data: it.Value()}
		var err error
		switch table {
		case store.TableLog:
			r.Kind = transfer.LogLine
			err = x.give(r)
		case store.TableOutput:
			r.Kind = transfer.Output
			err = x.give(r)
		default:
			r.Kind, r.Iteration = transfer.Entry, binary.BigEndian.Uint32(k[len(prefix):])
			err = x.chunk(r)
		}
		if err != nil {
			return err
		}
	}
	return it.Error()
}

// chunk passes the entries of a chunk.
func (x *export) chunk(r transfer.Record) error {
	for chunk := r.Data; len(chunk) > 0; r.Seq++ {
		flags := chunk[0]
		n, size := binary.Uvarint(chunk[1:])
		if size <= 0 || n > uint64(len(chunk)-1-size) {
			return fmt.Errorf("%w: chunk ends within entry %d", store.ErrCorrupt, r.Seq)
		}
		body := chunk[1+size:]
		r.Data, chunk = body[:n], body[n:]
		if flags != 0 {
			e, err := store.DecodeEntry(r.Data)
			if err == nil {
				err = x.s.fill(&e, flags)
			}
			if err != nil {
				return fmt.Errorf("entry %d: %w", r.Seq, err)
			}
			r.Data = store.AppendEntry(nil, &e)
		}
		if err := x.give(r); err != nil {
			return err
		}
	}
	return nil
}

// imports adds records to an empty store.
type imports struct {
	s         *Store
	b         *pebble.Batch
	namespace store.NamespaceID // the greatest id
	counts    map[partitionKind]*store.Counted

	run   *record // whose records are being added, nil for none
	key   store.RunKey
	at    uint32    // the iteration of the chunk
	first store.Seq // of the chunk
	chunk []byte
	large payloads
}

type partitionKind struct {
	p  store.PartitionID
	of kind
}

// Import implements transfer.Store.
func (t Transfer) Import(context.Context) (transfer.Importer, error) {
	return &imports{s: t.Store, b: t.db.NewBatch(), counts: map[partitionKind]*store.Counted{}}, nil
}

// importBatch is the approximate size in bytes of one write.
const importBatch = 4 << 20

// Add implements transfer.Importer.
func (x *imports) Add(_ context.Context, r *transfer.Record) error {
	if x.b.Len() >= importBatch {
		err := x.s.apply(x.b)
		x.s.drop(x.b)
		x.b = x.s.db.NewBatch()
		if err != nil {
			return err
		}
	}
	switch r.Kind {
	case transfer.Run:
		return x.begin(r)
	case transfer.Entry:
		return x.entry(r)
	case transfer.LogLine:
		return x.b.Set(store.IndexKey(r.Run(), store.TableLog, r.Seq), r.Data, nil)
	case transfer.Output:
		return x.b.Set(store.IndexKey(r.Run(), store.TableOutput, r.Seq), r.Data, nil)
	case transfer.Command, transfer.Schedule, transfer.Wake, transfer.Hook, transfer.Cell, transfer.Partition:
		if err := x.end(); err != nil {
			return err
		}
		return x.owned(r)
	}
	return x.setting(r)
}

// begin begins a run. Its state is written by end, since it names the last chunk of the journal.
func (x *imports) begin(r *transfer.Record) error {
	if err := x.end(); err != nil {
		return err
	}
	st, err := store.DecodeState(r.Data)
	x.run, x.key = &record{stored: stored{listed: r.Listed, state: st}}, r.Run()
	x.at, x.first, x.chunk = 0, 0, nil
	return err
}

// entry adds an entry to the chunk, or begins the next chunk.
func (x *imports) entry(r *transfer.Record) error {
	if len(x.chunk) > 0 && (r.Iteration != x.at || len(x.chunk) >= x.s.chunkBytes) {
		x.endChunk()
	}
	if len(x.chunk) == 0 {
		x.at, x.first = r.Iteration, store.Seq(r.Seq)
	}
	e, err := store.DecodeEntry(r.Data)
	if err != nil {
		return err
	}
	x.large.run, x.large.iteration = x.key, r.Iteration
	x.chunk, err = appendItem(x.b, x.chunk, &e, &x.large)
	for _, h := range x.large.added { // no commit of another run is in flight, and no payload is older
		_ = x.b.Set(store.RefersKey(h.run, h.digest[:]), binary.BigEndian.AppendUint32(nil, h.iteration), nil)
		_ = x.b.Set(store.ReferredKey(h.digest[:], h.run), nil, nil)
	}
	x.large.added = x.large.added[:0]
	return err
}

func (x *imports) endChunk() {
	_ = x.b.Set(store.JournalKey(x.key, x.at, x.first), x.chunk, nil)
	x.chunk = x.chunk[:0]
}

// end writes the state of the run, and its places in the indexes.
func (x *imports) end() error {
	r := x.run
	if r == nil {
		return nil
	}
	x.run = nil
	if len(x.chunk) > 0 {
		x.endChunk()
	}
	if r.state.Deleted {
		_ = x.b.Set(store.DeletedKey(x.key, r.state.UpdatedUnixMs), nil, nil)
		return setState(x.b, x.key, &stored{state: r.state})
	}
	if x.at == r.state.Iteration {
		r.chunk = x.first
	}
	setWakeOf(x.b, x.key, nil, r)
	setIndexes(x.b, x.key, nil, r)
	k := partitionKind{x.key.Partition(), kind{x.key.Namespace, r.state.Workflow, r.state.Version}}
	n := x.counts[k]
	if n == nil {
		n = &store.Counted{}
		x.counts[k] = n
	}
	if r.listed != 0 {
		n.Add(r.listed, 1)
	}
	n.Bytes += r.state.UsageBytes()
	return setState(x.b, x.key, &r.stored)
}

// Finish implements transfer.Importer.
func (x *imports) Finish(context.Context) error {
	defer func() { x.s.drop(x.b) }()
	if err := x.end(); err != nil {
		return err
	}
	if x.namespace > 0 {
		_ = x.b.Set(namespaceCounter, binary.BigEndian.AppendUint32(nil, uint32(x.namespace)), nil)
	}
	for k, n := range x.counts {
		_ = x.b.Set(store.CountKey(k.p, k.of.ns, k.of.workflow, k.of.version), store.AppendCounted(nil, n), nil)
	}
	if err := x.s.apply(x.b); err != nil { // countUses reads it
		return err
	}
	uses := x.s.db.NewBatch()
	defer x.s.drop(uses)
	if err := x.s.countUses(uses); err != nil {
		return err
	}
	return x.s.sync(uses, nil)
}
