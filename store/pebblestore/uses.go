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

// How many versions have a module is counted by its digest, in the batches that add and delete versions, so that neither
// reads the other versions. A module that was put is listed as unused in the same batch, until a version has it: the uploads
// that did not come to their end are found without reading the other modules. Put does not look whether the module has a
// version already, so the count decides, and the list only says where to look.
//
// The counts are made once, when a store without them is opened, and again if a build that does not keep them has had the store
// open since: such a build raises the epochs of partitions and not their copies beside them, as Acquire does.

// usesKey is there while the counts are complete, if the copies of the epochs are right as well.
var usesKey = store.GlobalKey(0, store.TableMeta, []byte("uses"))

// epochKey returns the key of the epoch of a partition, epochCopyKey that of its copy.
func epochKey(p store.PartitionID) []byte { return store.AppendPrefix(nil, 0, p, store.TableEpoch) }

func epochCopyKey(p store.PartitionID) []byte { return append(epochKey(p), 'u') }

// readUses prepares the counts when the store is opened. If they cannot be made, because a version cannot be read, no module is
// deleted: nobody knows whether it is needed.
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

// countUses puts the counts of all modules, and the list of unused ones, into a batch.
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

// usesOfAll counts the versions of each module, of all namespaces.
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

// uses returns how many versions have a module.
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

// use counts more versions of modules. The lock of the versions is held until the batch is applied.
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

// disuse counts a version of a module less, and deletes the module with the last one. A module whose versions are not known
// stays.
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

// remove deletes a module, with what is counted of it. A blob stays: it may be a payload as well.
func remove(b *pebble.Batch, d store.Digest) {
	_ = b.Delete(wasmKey(d), nil)
	for _, table := range []byte{store.TableModule, store.TableUses, store.TableUnused} {
		_ = b.Delete(store.GlobalKey(0, table, d[:]), nil)
	}
}

// Unused returns modules that were put, and have got no version since.
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

// DeleteUnused deletes those of the modules that no version has.
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
