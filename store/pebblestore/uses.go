package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// The number of versions that have a module is counted by its digest, in the batches that add and delete versions, so
// that neither reads the other versions. Put lists a module as unused in its own batch, until a version has it: this
// finds interrupted uploads without reading the other modules. Put does not check whether the module already has a
// version, so the count decides, and the list only says where to look.
//
// The counts are built when a store without them is opened, and again if a build that does not keep them has opened the
// store since: such a build raises the epochs of partitions without their copies, which Acquire keeps beside them.

// usesKey exists while the counts are complete, provided that the copies of the epochs are right.
var usesKey = store.GlobalKey(0, store.TableMeta, []byte("uses"))

// epochKey returns the key of the epoch of a partition, epochCopyKey the key of the copy of the epoch.
func epochKey(p store.PartitionID) []byte { return store.AppendPrefix(nil, 0, p, store.TableEpoch) }

func epochCopyKey(p store.PartitionID) []byte { return append(epochKey(p), 'u') }

// readUses builds the counts when the store is opened, if necessary. If a version cannot be read, it does not build
// them, and no module is deleted, since any may be needed.
func (s *Store) readUses(log *slog.Logger) error {
	counted, err := s.usesCounted()
	if err != nil || s.readOnly || counted {
		s.counted = counted
		return err
	}
	b := s.db.NewBatch()
	defer s.drop(b)
	if err := s.countUses(b); err != nil {
		log.Error("the versions of the modules cannot be counted: no module is deleted until the store is opened again", "cause", err)
		b.Reset()
		_ = b.Delete(usesKey, nil)
		return s.sync(b, nil)
	}
	s.counted = true
	return s.sync(b, nil)
}

// usesCounted reports whether the counts are complete.
func (s *Store) usesCounted() (bool, error) {
	if v, err := s.get(usesKey); err != nil || v == nil {
		return false, err
	}
	for p := range store.PartitionID(store.Partitions) {
		epoch, err := s.get(epochKey(p))
		if err != nil {
			return false, err
		}
		if noted, err := s.get(epochCopyKey(p)); err != nil || !bytes.Equal(noted, epoch) {
			return false, err
		}
	}
	return true, nil
}

// countUses adds the counts of all modules, and the list of unused ones, to a batch.
func (s *Store) countUses(b *pebble.Batch) error {
	for _, table := range []byte{store.TableUses, store.TableUnused} {
		prefix := store.GlobalKey(0, table, nil)
		_ = b.DeleteRange(prefix, store.PrefixEnd(prefix), nil)
	}
	uses, err := s.usesOfAll()
	if err != nil {
		return err
	}
	for d, n := range uses {
		_ = b.Set(store.GlobalKey(0, store.TableUses, d[:]), appendUses(n), nil)
	}
	prefix := store.GlobalKey(0, store.TableModule, nil)
	err = s.scan(prefix, store.PrefixEnd(prefix), func(k, _ []byte) (bool, error) {
		var d store.Digest
		if copy(d[:], k[len(prefix):]); len(k) == len(prefix)+len(d) && uses[d] == 0 {
			_ = b.Set(store.GlobalKey(0, store.TableUnused, d[:]), nil, nil)
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	for p := range store.PartitionID(store.Partitions) {
		epoch, err := s.get(epochKey(p))
		if err != nil {
			return err
		}
		if epoch != nil {
			_ = b.Set(epochCopyKey(p), epoch, nil)
		}
	}
	return b.Set(usesKey, nil, nil)
}

// usesOfAll counts the versions of each module, over all namespaces.
func (s *Store) usesOfAll() (uses map[store.Digest]uint64, err error) {
	uses = map[store.Digest]uint64{}
	err = s.eachVersion(func(_, record []byte) error {
		v, err := store.DecodeVersion(record)
		if err == nil && !v.Deleted {
			uses[v.Module]++
		}
		return err
	})
	return uses, err
}

func appendUses(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// uses returns the number of versions that have a module.
func (m modules) uses(d store.Digest) (uint64, error) {
	v, err := m.s.get(store.GlobalKey(0, store.TableUses, d[:]))
	if err != nil || v == nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, fmt.Errorf("%w: number of versions of module %s in %d bytes", store.ErrCorrupt, d, len(v))
	}
	return binary.BigEndian.Uint64(v), nil
}

// use adds to the version counts of modules. The lock of the versions is held until the batch is applied.
func (m modules) use(b *pebble.Batch, more map[store.Digest]uint64) error {
	for d, n := range more {
		_ = b.Delete(store.GlobalKey(0, store.TableUnused, d[:]), nil)
		if n == 0 {
			continue
		}
		before, err := m.uses(d)
		if err != nil {
			return err
		}
		_ = b.Set(store.GlobalKey(0, store.TableUses, d[:]), appendUses(before+n), nil)
	}
	return nil
}

// disuse subtracts a version from a module's count, and deletes the module with its last version. A module without a
// count stays.
func (m modules) disuse(b *pebble.Batch, d store.Digest) error {
	n, err := m.uses(d)
	switch {
	case err != nil:
		return err
	case n > 1:
		_ = b.Set(store.GlobalKey(0, store.TableUses, d[:]), appendUses(n-1), nil)
	case n == 1 && m.s.counted:
		remove(b, d)
	}
	return nil
}

// remove deletes a module, with its count. A blob with the same content stays: it may be a payload as well.
func remove(b *pebble.Batch, d store.Digest) {
	_ = b.Delete(wasmKey(d), nil)
	for _, table := range []byte{store.TableModule, store.TableUses, store.TableUnused} {
		_ = b.Delete(store.GlobalKey(0, table, d[:]), nil)
	}
}

// Unused returns modules that have got no version since they were put.
func (m modules) Unused(_ context.Context, limit int) (list []store.Digest, err error) {
	end, err := m.s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	if !m.s.counted || limit <= 0 {
		return nil, nil
	}
	prefix := store.GlobalKey(0, store.TableUnused, nil)
	err = m.s.scan(prefix, store.PrefixEnd(prefix), func(k, _ []byte) (bool, error) {
		var d store.Digest
		if copy(d[:], k[len(prefix):]); len(k) != len(prefix)+len(d) {
			return false, fmt.Errorf("%w: key of an unused module of %d bytes", store.ErrCorrupt, len(k))
		}
		list = append(list, d)
		return len(list) < limit, nil
	})
	return list, err
}

// DeleteUnused deletes the given modules that no version has.
func (m modules) DeleteUnused(_ context.Context, of []store.Digest) (deleted []store.Digest, err error) {
	end, err := m.s.beginWrite()
	if err != nil {
		return nil, err
	}
	defer end()
	if !m.s.counted {
		return nil, nil
	}
	m.s.versions.Lock()
	defer m.s.versions.Unlock()
	b := m.s.db.NewBatch()
	defer m.s.drop(b)
	for _, d := range of {
		n, err := m.uses(d)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			_ = b.Delete(store.GlobalKey(0, store.TableUnused, d[:]), nil)
			continue
		}
		info, err := m.s.get(store.GlobalKey(0, store.TableModule, d[:]))
		if err != nil {
			return nil, err
		}
		if remove(b, d); info != nil {
			deleted = append(deleted, d)
		}
	}
	if b.Empty() {
		return nil, nil
	}
	return deleted, m.s.sync(b, nil)
}
