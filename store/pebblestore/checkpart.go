package pebblestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// partitionCheck checks one partition.
type partitionCheck struct {
	*checker
	p store.PartitionID
	// want holds the table entries that the states imply: key to value.
	want   map[string][]byte
	counts shifts
	states map[string]*stored               // of one namespace, by run id
	large  map[string]map[store.Digest]bool // payloads named by the journals of one namespace, by run id
	lost   bool                             // a state cannot be read, so want is incomplete
}

func digestOf(b []byte) store.Digest { return sha256.Sum256(b) }

func (x *partitionCheck) problem(kind string, ns store.NamespaceID, run, format string, args ...any) {
	x.report.Add(Problem{Kind: kind, Partition: int(x.p), Namespace: ns, Run: run, Text: fmt.Sprintf(format, args...)})
}

func (x *partitionCheck) all() error {
	for _, ns := range x.list {
		x.states, x.large = map[string]*stored{}, map[string]map[store.Digest]bool{}
		for _, step := range []func(store.NamespaceID) error{x.readStates, x.schedules, x.journals, x.payloads, x.logs, x.outputs,
			x.hooks, x.queues} {
			if err := step(ns); err != nil {
				return err
			}
		}
	}
	x.states, x.large = nil, nil
	for i := range x.counts.list {
		if of, n := x.counts.list[i].of, &x.counts.list[i].listed; *n != (store.Counted{}) {
			x.want[string(store.CountKey(x.p, of.ns, of.workflow, of.version))] = store.AppendCounted(nil, n)
		}
	}
	if err := x.commands(); err != nil {
		return err
	}
	return x.indexes()
}

// readStates reads the states of a namespace, and adds the implied entries to want.
func (x *partitionCheck) readStates(ns store.NamespaceID) error {
	b := x.s.db.NewBatch()
	defer func() { _ = b.Close() }() // memory only
	return x.each(ns, x.p, store.TableState, func(rest, v []byte) error {
		id := string(rest)
		run := store.RunKey{Namespace: ns, ID: id}
		st, err := decodeStored(v)
		switch {
		case err != nil:
			x.lost = true
			x.problem("state", ns, id, "its state: %v", err)
			return nil
		case st.state.Run != run || run.Partition() != x.p:
			x.problem("state", ns, id, "its state is that of run %q of namespace %d, and belongs to partition %d", st.state.Run.ID,
				st.state.Run.Namespace, run.Partition())
		}
		x.sealed(ns, id, "its state", st.state.Sealed, []byte(st.state.Reason))
		x.states[id] = &st
		if st.state.Deleted {
			x.want[string(store.DeletedKey(run, st.state.UpdatedUnixMs))] = nil
			return nil
		}
		x.report.Runs++
		if st.state.Module != (store.Digest{}) && !x.modules[st.state.Module] {
			x.problem("module", ns, id, "its module %s is not there", st.state.Module)
		}
		r := &record{stored: st}
		b.Reset()
		setIndexes(b, run, nil, r)
		setWakeOf(b, run, nil, r)
		x.counts.move(run, nil, r)
		return x.wants(b)
	})
}

// wants adds the keys that a batch sets to want.
func (x *partitionCheck) wants(b *pebble.Batch) error {
	for in := b.Reader(); ; {
		_, k, v, ok, err := in.Next()
		if err != nil || !ok {
			return err
		}
		x.want[string(k)] = bytes.Clone(v)
	}
}

// splitRunKey splits a key into the id of a run and the bytes after it.
func splitRunKey(rest []byte, bytesBehind int) (id string, behind []byte, ok bool) {
	at := bytes.IndexByte(rest, 0)
	if at <= 0 || len(rest)-at-1 != bytesBehind {
		return "", nil, false
	}
	return string(rest[:at]), rest[at+1:], true
}

// journalCheck is the position in a journal that is being read.
type journalCheck struct {
	id        string
	iteration uint32
	next      store.Seq  // of the next entry
	last      store.Seq  // first seq of the chunk that was read last
	module    string     // the run's last module by an entry; empty if no entry says it, or it is sealed
	moved     bool       // an entry set the run aside, and no later one adopted it
	end       store.Kind // the newest entry if it is an end, else KindInvalid
	broken    bool
}

// journals checks that the journals of a namespace have no gaps, and belong to runs.
func (x *partitionCheck) journals(ns store.NamespaceID) error {
	var j journalCheck
	read := map[string]bool{} // the newest iteration of a run
	end := func() {
		st := x.states[j.id]
		if j.id == "" || st == nil || j.iteration != st.state.Iteration {
			return
		}
		read[j.id] = true
		if !j.broken && (j.next != st.state.Length || j.last != st.chunk) {
			x.problem("journal", ns, j.id, "its journal has %d entries, the last chunk of which begins at %d; its state says %d and %d",
				j.next, j.last, st.state.Length, st.chunk)
		}
		if !j.broken && j.module != "" && j.module != st.state.Module.String() {
			x.problem("state", ns, j.id, "its state has the module %s, and its journal goes on under %q", st.state.Module, j.module)
		}
		if is := st.state.Aside; !j.broken && is != store.AsideCopy && (is == store.AsideMoved) != j.moved {
			x.problem("state", ns, j.id, "its state says %q of whether it is here, and its journal that it has moved: %v",
				is, j.moved)
		}
		if is := st.state.Status; !j.broken && j.end != store.KindInvalid && is != j.end.Status() {
			x.problem("state", ns, j.id, "its state says %s, and its journal ends with %s", is, j.end)
		}
	}
	err := x.each(ns, x.p, store.TableJournal, func(rest, v []byte) error {
		id, behind, ok := splitRunKey(rest, 12)
		if !ok {
			x.problem("key", ns, "", "a key of a journal is %q", rest)
			return nil
		}
		iteration, first := binary.BigEndian.Uint32(behind), store.Seq(binary.BigEndian.Uint64(behind[4:]))
		if id != j.id || iteration != j.iteration {
			end()
			j = journalCheck{id: id, iteration: iteration}
			if st := x.states[id]; !x.lost && (st == nil || st.state.Deleted || iteration > st.state.Iteration) {
				x.problem("journal", ns, id, "there is a journal of its iteration %d, which it has not", iteration)
			} else if st != nil && iteration > 0 && iteration < st.state.Kept {
				x.problem("journal", ns, id, "there is a journal of its iteration %d, which was removed", iteration)
			}
		}
		if j.broken {
			return nil
		}
		if first != j.next {
			j.broken = true
			x.problem("journal", ns, id, "entries %d to %d of iteration %d are missing", j.next, first, iteration)
			return nil
		}
		j.last = first
		err := x.chunk(ns, &j, v)
		if errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrVersion) {
			j.broken = true
			x.problem("journal", ns, id, "entry %d of iteration %d: %v", j.next, iteration, err)
			return nil
		}
		return err
	})
	end()
	for id, st := range x.states {
		if !st.state.Deleted && !read[id] {
			x.problem("journal", ns, id, "it has no journal")
		}
	}
	return err
}

// chunk reads the entries of a chunk, and checks the blobs that they name.
func (x *partitionCheck) chunk(ns store.NamespaceID, j *journalCheck, chunk []byte) error {
	for len(chunk) > 0 {
		flags := chunk[0]
		n, size := binary.Uvarint(chunk[1:])
		if size <= 0 || n > uint64(len(chunk)-1-size) {
			return fmt.Errorf("%w: chunk ends within an entry", store.ErrCorrupt)
		}
		body := chunk[1+size:]
		e, err := store.DecodeEntry(body[:n])
		switch {
		case err != nil:
			return err
		case e.Seq != j.next:
			return fmt.Errorf("%w: it is entry %d", store.ErrCorrupt, e.Seq)
		case !e.Kind.Known():
			return fmt.Errorf("%w: it has the unknown kind %d", store.ErrVersion, e.Kind)
		}
		if flags&inputIsBlob != 0 {
			err = x.name(j.id, e.Input)
		}
		if flags&dataIsBlob != 0 && err == nil {
			err = x.name(j.id, e.Data)
		}
		if err != nil {
			return err
		}
		if flags&dataIsBlob == 0 {
			x.sealed(ns, j.id, "its journal", e.Sealed, e.Data)
		}
		if e.Kind == store.KindMigrated || e.Kind == store.KindRetried && (e.Target != "" || e.Sealed) {
			j.module = e.Target
		}
		if e.Kind == store.KindMoved || e.Kind == store.KindAdopted {
			j.moved = e.Kind == store.KindMoved
		}
		j.end = store.KindInvalid
		if e.Kind.End() {
			j.end = e.Kind
		}
		x.report.Entries++
		j.next, chunk = j.next+1, body[n:]
	}
	return nil
}

// name checks a blob that an entry names, once.
func (x *partitionCheck) name(id string, digest []byte) error {
	var d store.Digest
	if copy(d[:], digest); len(digest) != len(d) {
		return fmt.Errorf("%w: it names a blob by %d bytes", store.ErrCorrupt, len(digest))
	}
	if x.large[id] == nil {
		x.large[id] = map[store.Digest]bool{}
	}
	x.large[id][d] = true
	sound, known := x.named[d]
	if !known {
		_, err := x.s.blob(digest)
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			return err
		}
		sound = err == nil
		x.named[d] = sound
	}
	if !sound {
		return fmt.Errorf("%w: blob %s is missing or damaged", store.ErrCorrupt, d)
	}
	return nil
}

func (x *partitionCheck) logs(ns store.NamespaceID) error {
	return x.numbered(ns, store.TableLog, "log", func(st *store.RunState) uint64 { return st.LogRecords },
		func(id string, v []byte) (uint64, error) {
			l, err := store.DecodeLogLine(v)
			x.sealed(ns, id, "its log", l.Sealed, []byte(l.Text))
			return l.Index, err
		})
}

func (x *partitionCheck) outputs(ns store.NamespaceID) error {
	return x.numbered(ns, store.TableOutput, "output", func(st *store.RunState) uint64 { return st.Output },
		func(id string, v []byte) (uint64, error) {
			c, err := store.DecodeChunk(v)
			x.sealed(ns, id, "its output", c.Sealed, c.Data)
			return c.Index, err
		})
}

// numbered checks records of runs that have an index in their key.
func (x *partitionCheck) numbered(ns store.NamespaceID, table byte, kind string, length func(*store.RunState) uint64,
	decode func(id string, record []byte) (uint64, error)) error {
	return x.each(ns, x.p, table, func(rest, v []byte) error {
		id, behind, ok := splitRunKey(rest, 8)
		if !ok {
			x.problem("key", ns, "", "a key of a %s is %q", kind, rest)
			return nil
		}
		index, st := binary.BigEndian.Uint64(behind), x.states[id]
		got, err := decode(id, v)
		switch {
		case err != nil:
			x.problem(kind, ns, id, "record %d of its %s: %v", index, kind, err)
		case got != index:
			x.problem(kind, ns, id, "record %d of its %s says that it is number %d", index, kind, got)
		case x.lost && st == nil:
		case st == nil || st.state.Deleted || index >= length(&st.state):
			x.problem(kind, ns, id, "there is a record %d of its %s, which it has not", index, kind)
		}
		return nil
	})
}

func (x *partitionCheck) hooks(ns store.NamespaceID) error {
	return x.each(ns, x.p, store.TableHook, func(rest, v []byte) error {
		h, err := store.DecodeHolder(v)
		switch {
		case err != nil:
			x.problem("hook", ns, "", "the holder of a token: %v", err)
		case store.TokenPartition(ns, string(rest)) != x.p:
			x.problem("hook", ns, h.Run.ID, "its token stands in a partition to which it does not belong")
		}
		return nil
	})
}

// commands checks the inbox.
func (x *partitionCheck) commands() error {
	return x.each(0, x.p, store.TableInbox, func(rest, v []byte) error {
		x.report.Commands++
		cmd, err := store.DecodeCommand(v)
		x.sealed(cmd.To.Namespace, cmd.To.ID, "a command for it", cmd.Sealed, cmd.Data)
		switch {
		case len(rest) != 8:
			x.problem("key", 0, "", "a key of the inbox is %x", rest)
		case err != nil:
			x.problem("inbox", 0, "", "command %d: %v", binary.BigEndian.Uint64(rest), err)
		case uint64(cmd.Seq) != binary.BigEndian.Uint64(rest):
			x.problem("inbox", 0, cmd.To.ID, "command %d says that it is number %d", binary.BigEndian.Uint64(rest), cmd.Seq)
		case cmd.To.Partition() != x.p:
			x.problem("inbox", cmd.To.Namespace, cmd.To.ID, "command %d is for a run of partition %d", cmd.Seq, cmd.To.Partition())
		}
		return nil
	})
}

// sorted returns the remaining keys of want, sorted.
func (x *partitionCheck) sorted() []string { return slices.Sorted(maps.Keys(x.want)) }
