package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

var (
	formatKey = store.GlobalKey(0, store.TableMeta, []byte("format"))
	// indexKey exists while the indexes of a store of an earlier format are built. Its value is the first partition,
	// u16be, whose runs may not be indexed.
	indexKey = store.GlobalKey(0, store.TableMeta, []byte("index"))
)

// firstIndexed is the first format in which commits keep all indexes of runs. The index of deleted runs came last.
const firstIndexed = 4

// load reads the data that is kept in memory while the store is open.
func (s *Store) load(opts Options) error {
	log, raised := opts.Logger, opts.Raised
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if raised == nil {
		raised = func(int, int) {}
	}
	if err := errors.Join(s.checkMeta(log, raised), s.readCopy(opts)); err != nil {
		return err
	}
	if err := s.readUses(log); err != nil {
		return err
	}
	if err := s.readVersions(); err != nil {
		return err
	}
	for p := range store.PartitionID(store.Partitions) { // Timers also reads the marks of partitions without an owner
		if err := s.marks[p].read(s, p); err != nil {
			return err
		}
	}
	return s.tallies.read(s)
}

// checkMeta reads the format record: version u8, partitions u16be. It writes the record into a new store, and into a
// store of an earlier version before any other record of this version.
func (s *Store) checkMeta(log *slog.Logger, raised func(done, total int)) error {
	v, err := s.get(formatKey)
	if err != nil {
		return err
	}
	current := binary.BigEndian.AppendUint16([]byte{store.FormatVersion}, store.Partitions)
	if v == nil && !s.readOnly {
		return s.db.Set(formatKey, current, pebble.Sync)
	}
	if len(v) != 3 || v[0] == 0 {
		return fmt.Errorf("%w: format record of %d bytes", store.ErrCorrupt, len(v))
	}
	if v[0] > store.FormatVersion {
		return newerFormat(int(v[0]))
	}
	if n := binary.BigEndian.Uint16(v[1:]); n != store.Partitions {
		return fmt.Errorf("%w: %d partitions, this release has %d", store.ErrVersion, n, store.Partitions)
	}
	if s.readOnly {
		return s.checkRaised(v[0])
	}
	if v[0] < store.FormatVersion {
		b := s.db.NewBatch()
		defer s.drop(b)
		_ = b.Set(formatKey, current, nil)
		if v[0] < firstIndexed {
			_ = b.Set(indexKey, []byte{0, 0}, nil)
		}
		if err := s.sync(b, nil); err != nil {
			return err
		}
	}
	return s.indexAll(log, raised)
}

// checkRaised refuses a read-only store that must be raised to the format of this release first.
func (s *Store) checkRaised(format byte) error {
	index, err := s.get(indexKey)
	if err == nil && (format < store.FormatVersion || index != nil) {
		err = fmt.Errorf("%w: the store has format %d and becomes one of format %d when a host opens it, which has to be done first",
			store.ErrVersion, format, store.FormatVersion)
	}
	return err
}

// indexAll adds the runs of an earlier format to the indexes, unless that is done. It goes partition by partition and
// resumes with the partition in which it was interrupted. An earlier release refuses the store meanwhile.
func (s *Store) indexAll(log *slog.Logger, raised func(done, total int)) error {
	v, err := s.get(indexKey)
	if err != nil || v == nil {
		return err
	}
	if len(v) != 2 {
		return fmt.Errorf("%w: progress of the indexes in %d bytes", store.ErrCorrupt, len(v))
	}
	list, err := s.namespaces()
	if err != nil {
		return err
	}
	namespaces := make([]store.NamespaceID, 0, len(list))
	for _, n := range list {
		namespaces = append(namespaces, n.ID)
	}
	first, runs := store.PartitionID(binary.BigEndian.Uint16(v)), 0
	log.Info("making the indexes of a store of an earlier format, once", "from partition", first, "of", store.Partitions)
	for p := first; p < store.Partitions; p++ {
		raised(int(p), store.Partitions)
		n, err := s.indexPartition(p, namespaces, log)
		if err != nil {
			return fmt.Errorf("index the runs of partition %d: %w", p, err)
		}
		runs += n
	}
	b := s.db.NewBatch()
	defer s.drop(b)
	_ = b.Delete(indexKey, nil)
	if err := s.sync(b, nil); err != nil {
		return err
	}
	raised(store.Partitions, store.Partitions)
	log.Info("made the indexes", "runs", runs)
	return nil
}

// indexBatch is the approximate size in bytes of one write.
const indexBatch = 1 << 20

// indexPartition adds the runs of one partition to the indexes, then records that it is done. A repeated attempt writes
// the same again: no run changes before all partitions are done. A run that cannot be read is left out, as it can be
// neither changed nor deleted. Failing instead would make the store impossible to open, by this release or an earlier
// one.
func (s *Store) indexPartition(p store.PartitionID, namespaces []store.NamespaceID, log *slog.Logger) (runs int, err error) {
	counts := shifts{}
	b := s.db.NewBatch()
	defer s.drop(b)
	for _, ns := range namespaces {
		for _, table := range []byte{store.TableLive, store.TableStuck, store.TableSeen} {
			prefix := store.AppendPrefix(nil, ns, p, table)
			_ = b.DeleteRange(prefix, store.PrefixEnd(prefix), nil)
		}
		prefix := store.AppendPrefix(nil, ns, p, store.TableState)
		err := s.scan(prefix, store.PrefixEnd(prefix), func(k, v []byte) (bool, error) {
			run, err := store.ParseRunTableKey(k)
			if err != nil {
				return false, err
			}
			r := &record{}
			r.stored, err = decodeStored(v)
			if errors.Is(err, store.ErrCorrupt) {
				log.Error("a run cannot be read, and is left out of the indexes", "run", run.ID, "namespace", ns, "cause", err)
				return true, nil
			}
			if err != nil {
				return false, fmt.Errorf("run %q: %w", run.ID, err)
			}
			if r.state.Deleted {
				return true, b.Set(store.DeletedKey(run, r.state.UpdatedUnixMs), nil, nil)
			}
			runs++
			setIndexes(b, run, nil, r)
			counts.move(run, nil, r)
			if b.Len() < indexBatch {
				return true, nil
			}
			err = s.apply(b)
			b.Reset()
			return true, err
		})
		if err != nil {
			return runs, err
		}
	}
	for i := range counts.list {
		if of, n := counts.list[i].of, &counts.list[i].listed; *n != (store.Counted{}) {
			_ = b.Set(store.CountKey(p, of.ns, of.workflow, of.version), store.AppendCounted(nil, n), nil)
		}
	}
	_ = b.Set(indexKey, binary.BigEndian.AppendUint16(nil, uint16(p)+1), nil)
	return runs, s.sync(b, nil)
}
