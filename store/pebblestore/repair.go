package pebblestore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// indexTables are the tables of a partition that the states imply completely. In the wake index, only the wakes of runs
// and schedules follow from records.
const indexTables = "rckqtx"

// indexes compares the tables with what the states imply, and corrects them if Repair is set. If a state could not be
// read, superfluous entries may belong to its run, and stay.
func (x *partitionCheck) indexes() error {
	b := x.s.db.NewBatch()
	defer x.s.drop(b)
	compare := func(ns store.NamespaceID, table byte) error {
		return x.each(ns, x.p, table, func(rest, v []byte) error {
			return x.compare(b, ns, table, append(store.AppendPrefix(nil, ns, x.p, table), rest...), v)
		})
	}
	for _, ns := range x.list {
		for _, table := range []byte(indexTables) {
			if err := compare(ns, table); err != nil {
				return err
			}
		}
	}
	for _, table := range []byte{store.TableWake, store.TableBusy, store.TableCount} {
		if err := compare(0, table); err != nil {
			return err
		}
	}
	for _, k := range x.sorted() {
		x.index([]byte(k), "is missing")
		if err := x.set(b, []byte(k), x.want[k]); err != nil {
			return err
		}
	}
	if err := x.marks(b); err != nil {
		return err
	}
	return x.apply(b)
}

// compare compares one stored key with what the states of the runs imply.
func (x *partitionCheck) compare(b *pebble.Batch, ns store.NamespaceID, table byte, k, v []byte) error {
	if table == store.TableWake {
		w, err := store.ParseWakeIndexKey(k)
		if err != nil {
			x.problem("key", ns, "", "a key of the wake index: %v", err)
			return nil
		}
		if len(v) != 8 {
			x.problem("key", w.Key.Namespace, w.Key.ID, "a wake has a deadline of %d bytes, want 8", len(v))
		}
		if w.Kind != store.WakeRun && w.Kind != store.WakeSchedule {
			return nil // no other record implies such a wake
		}
	}
	want, ok := x.want[string(k)]
	delete(x.want, string(k))
	switch {
	case ok && bytes.Equal(want, v):
		return nil
	case ok:
		x.index(k, "is not what the runs imply")
		return x.set(b, k, want)
	case x.lost:
		x.report.Add(Problem{Kind: "index", Partition: int(x.p), Namespace: ns,
			Text: fmt.Sprintf("%s is there for no run that can be read; it stays", describe(k))})
		return nil
	}
	x.index(k, "is there for no run")
	if !x.repair {
		return nil
	}
	_ = b.Delete(k, nil)
	return x.flush(b)
}

func (x *partitionCheck) set(b *pebble.Batch, k, v []byte) error {
	if !x.repair {
		return nil
	}
	_ = b.Set(k, v, nil)
	return x.flush(b)
}

// flush writes a repair in portions. Each portion is consistent by itself.
func (c *checker) flush(b *pebble.Batch) error {
	if b.Len() < indexBatch {
		return nil
	}
	err := c.apply(b)
	b.Reset()
	return err
}

// index reports a wrong key of an index.
func (x *partitionCheck) index(k []byte, what string) {
	kind := "index"
	switch k[6] {
	case store.TableWake:
		kind = "wake"
	case store.TableCount:
		kind = "count"
	}
	x.report.Add(Problem{Kind: kind, Partition: int(x.p), Namespace: store.NamespaceID(binary.BigEndian.Uint32(k)),
		Text: describe(k) + " " + what, Repaired: x.repair})
}

// describe names a key of an index.
func describe(k []byte) string {
	of := map[byte]string{store.TableWake: "wake", store.TableRuns: "entry of the list of all runs",
		store.TableStatus: "entry of the list of a status", store.TableBusy: "entry of the list of busy runs",
		store.TableOf: "entry of the list of a workflow", store.TableWith: "entry of the list of an attribute",
		store.TableCount: "count", store.TableEnded: "entry of the list of ended runs",
		store.TableDeleted: "entry of the list of deleted runs"}
	return fmt.Sprintf("the %s %q", of[k[6]], k[7:])
}

// marks checks the marks of the wake index and the inbox, below which there must be no keys, and the newest number of
// the inbox.
func (x *partitionCheck) marks(b *pebble.Batch) error {
	first := func(table byte) (number uint64, ok bool, err error) {
		err = x.s.scan(store.AppendPrefix(nil, 0, x.p, table), store.PrefixEnd(store.AppendPrefix(nil, 0, x.p, table)),
			func(k, _ []byte) (bool, error) {
				if len(k) >= 15 {
					number, ok = binary.BigEndian.Uint64(k[7:]), true
				}
				return !ok, nil
			})
		return number, ok, err
	}
	wrong := func(format string, args ...any) {
		x.report.Add(Problem{Kind: "mark", Partition: int(x.p), Text: fmt.Sprintf(format, args...), Repaired: x.repair})
	}
	for _, m := range []struct {
		key   []byte
		table byte
		what  string
	}{{markKey(x.p), store.TableWake, "the wake index"}, {inboxMarkKey(x.p), store.TableInbox, "the inbox"}} {
		v, err := x.s.get(m.key)
		if err != nil || v == nil {
			if err != nil {
				return err
			}
			continue
		}
		from, ok, err := first(m.table)
		switch {
		case err != nil:
			return err
		case len(v) != 8:
			wrong("the mark of %s has %d bytes, want 8", m.what, len(v))
		case ok && from < binary.BigEndian.Uint64(v):
			wrong("the mark of %s is %d, its first key %d, which nobody would find", m.what, binary.BigEndian.Uint64(v), from)
		default:
			continue
		}
		if x.repair { // without a mark, scans read the whole table
			_ = b.Delete(m.key, nil)
		}
	}
	return x.newest(b, wrong)
}

// newest checks that the inbox has no command with a number that would be assigned again.
func (x *partitionCheck) newest(b *pebble.Batch, wrong func(string, ...any)) error {
	var last uint64
	err := x.each(0, x.p, store.TableInbox, func(rest, _ []byte) error {
		if len(rest) == 8 {
			last = binary.BigEndian.Uint64(rest)
		}
		return nil
	})
	if err != nil {
		return err
	}
	v, err := x.s.get(inboxCounter(x.p))
	switch {
	case err != nil:
		return err
	case len(v) == 8 && binary.BigEndian.Uint64(v) >= last, v == nil && last == 0:
		return nil
	}
	wrong("the newest command has the number %d, but the inbox gives %x next", last, v)
	if x.repair {
		_ = b.Set(slices.Clip(inboxCounter(x.p)), binary.BigEndian.AppendUint64(nil, max(last, 1)), nil)
	}
	return nil
}
