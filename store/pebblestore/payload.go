package pebblestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// A large payload is stored once, however many runs have it. Two keys record that a run has it, see FORMAT.md. The first
// leads from a run to its payloads, with the newest iteration that has each: the deletion of a run reads it. The second
// leads from a payload to its runs. Both are set and deleted in the batches that add payloads and delete runs, so that no
// crash separates them. Setting a key again changes nothing, while a counter would count twice.
//
// A payload that was stored before there were such keys has none. It is never deleted, nor is a payload without keys that
// a run adds again: other runs may have it.

// payloads is the change of payload ownership by one commit.
type payloads struct {
	run       store.RunKey // being added to the batch
	iteration uint32       // whose entries are being added to the batch
	added     []holding
	dropped   []holding
	held      *sync.Mutex // Store.payloads, while it is locked
}

// holding is a run that has a payload.
type holding struct {
	digest    store.Digest
	run       store.RunKey
	iteration uint32 // the newest iteration that has it
}

// add stores a payload under its SHA-256, which it returns.
func (x *payloads) add(b *pebble.Batch, payload []byte) []byte {
	d := store.Digest(sha256.Sum256(payload))
	_ = b.Set(store.GlobalKey(0, store.TableBlob, d[:]), payload, nil)
	x.added = append(x.added, holding{d, x.run, x.iteration})
	return d[:]
}

// giveUp drops all payloads of a run that is deleted.
func (s *Store) giveUp(x *payloads, run store.RunKey) error {
	prefix := store.RefersKey(run, nil)
	return s.scan(prefix, store.PrefixEnd(prefix), func(k, _ []byte) (bool, error) {
		x.dropped = append(x.dropped, holding{digest: store.Digest(k[len(prefix):]), run: run})
		return true, nil
	})
}

// settle adds the changed ownership keys to the batch, and deletes the payloads that no run has afterwards. It is
// called when all runs of the batch are in it. The lock stays held until the batch is applied, so that the next holder
// sees the result.
func (s *Store) settle(b *pebble.Batch, x *payloads) error {
	if len(x.added)+len(x.dropped) == 0 {
		return nil
	}
	s.payloads.Lock()
	x.held = &s.payloads
	for _, h := range x.dropped {
		_ = b.Delete(store.RefersKey(h.run, h.digest[:]), nil)
		_ = b.Delete(store.ReferredKey(h.digest[:], h.run), nil)
		needed, err := s.needed(x, h.digest)
		if err != nil {
			return err
		}
		if !needed {
			_ = b.Delete(store.GlobalKey(0, store.TableBlob, h.digest[:]), nil)
		}
	}
	for _, h := range x.added { // after the deletions: a run that replaces another may have the same payload
		if err := s.pin(b, h.digest); err != nil {
			return err
		}
		_ = b.Set(store.RefersKey(h.run, h.digest[:]), binary.BigEndian.AppendUint32(nil, h.iteration), nil)
		_ = b.Set(store.ReferredKey(h.digest[:], h.run), nil, nil)
	}
	return nil
}

// unlock is called when the batch is applied, or will not be. It is idempotent.
func (x *payloads) unlock() {
	if x.held != nil {
		x.held.Unlock()
	}
	x.held = nil
}

// needed reports whether any run has a payload after the batch.
func (s *Store) needed(x *payloads, d store.Digest) (needed bool, err error) {
	if slices.ContainsFunc(x.added, func(h holding) bool { return h.digest == d }) {
		return true, nil
	}
	var gone [][]byte
	for _, h := range x.dropped {
		if h.digest == d {
			gone = append(gone, store.ReferredKey(d[:], h.run))
		}
	}
	prefix := store.GlobalKey(0, store.TableReferred, d[:])
	err = s.scan(prefix, store.PrefixEnd(prefix), func(k, _ []byte) (bool, error) {
		needed = !slices.ContainsFunc(gone, func(g []byte) bool { return bytes.Equal(g, k) })
		return !needed, nil
	})
	return needed, err
}

// pin keeps a stored payload forever that no run is known to have.
func (s *Store) pin(b *pebble.Batch, d store.Digest) error {
	known := false
	prefix := store.GlobalKey(0, store.TableReferred, d[:])
	err := s.scan(prefix, store.PrefixEnd(prefix), func(_, _ []byte) (bool, error) {
		known = true
		return false, nil
	})
	if err != nil || known {
		return err
	}
	v, err := s.get(store.GlobalKey(0, store.TableBlob, d[:]))
	if err != nil || v == nil {
		return err
	}
	return b.Set(prefix, nil, nil)
}
