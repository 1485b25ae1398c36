package pebblestore

import (
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// forgetIterations removes the journals of iterations before State.Kept, with the large payloads that no later
// iteration has. The first chunk of iteration 0 stays, with the run's input in entry 0, and is the only chunk that is
// read. The iteration that ends with this commit is not removed.
func (s *Store) forgetIterations(b *pebble.Batch, c *store.RunCommit, old *record, large *payloads) error {
	from, to := old.state.Kept, min(c.State.Kept, c.State.Iteration)
	lower, upper := store.JournalKey(c.Run, from, 0), store.JournalKey(c.Run, to, 0)
	if from == 0 {
		lower = store.JournalKey(c.Run, 0, 1)
	}
	keys, err := s.firstKeys(lower, upper)
	switch {
	case err != nil:
		return err
	case len(keys) > mostCleared:
		s.ranges.Add(1)
		_ = b.DeleteRange(lower, upper, nil)
	default:
		for _, k := range keys {
			_ = b.Delete(k, nil)
		}
	}
	return s.forgetPayloads(b, c, to, large)
}

// forgetPayloads drops a run's large payloads whose newest iteration is before to. For payloads of earlier releases the
// iteration is unknown: they are recorded as belonging to the iteration before this one, or an earlier one.
func (s *Store) forgetPayloads(b *pebble.Batch, c *store.RunCommit, to uint32, large *payloads) error {
	var first map[store.Digest]bool // payloads of the chunk that stays; read when there is a payload
	prefix := store.RefersKey(c.Run, nil)
	return s.scan(prefix, store.PrefixEnd(prefix), func(k, v []byte) (bool, error) {
		d := store.Digest(k[len(prefix):])
		if len(v) != 4 {
			_ = b.Set(store.RefersKey(c.Run, d[:]), binary.BigEndian.AppendUint32(nil, c.State.Iteration-1), nil)
			return true, nil
		}
		if binary.BigEndian.Uint32(v) >= to {
			return true, nil
		}
		if first == nil {
			var err error
			first, err = s.firstPayloads(c.Run)
			if err != nil {
				return false, err
			}
		}
		if !first[d] {
			large.dropped = append(large.dropped, holding{digest: d, run: c.Run})
		}
		return true, nil
	})
}

// firstPayloads returns the large payloads that the first chunk of a run's first iteration names.
func (s *Store) firstPayloads(run store.RunKey) (map[store.Digest]bool, error) {
	list := map[store.Digest]bool{}
	chunk, err := s.get(store.JournalKey(run, 0, 0))
	for err == nil && len(chunk) > 0 {
		var e store.Entry
		var flags byte
		e, flags, chunk, err = takeItem(chunk)
		if err != nil {
			break
		}
		for _, x := range []struct {
			is     bool
			digest []byte
		}{{flags&inputIsBlob != 0, e.Input}, {flags&dataIsBlob != 0, e.Data}} {
			if x.is && len(x.digest) == len(store.Digest{}) {
				list[store.Digest(x.digest)] = true
			}
		}
	}
	return list, err
}
