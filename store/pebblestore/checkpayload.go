package pebblestore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// compareDigests orders digests, so that reports are reproducible.
func compareDigests(a, b store.Digest) int { return bytes.Compare(a[:], b[:]) }

// payloads checks the keys that record which run has which large payload. If one is missing, a payload that a run
// needs could be deleted; a superfluous one keeps its payload forever.
func (x *partitionCheck) payloads(ns store.NamespaceID) error {
	b := x.s.db.NewBatch()
	defer x.s.drop(b)
	err := x.each(ns, x.p, store.TableRefers, func(rest, _ []byte) error {
		id, digest, ok := splitRunKey(rest, len(store.Digest{}))
		if !ok {
			x.problem("key", ns, "", "a key of a large payload is %q", rest)
			return nil
		}
		h := holding{digest: store.Digest(digest), run: store.RunKey{Namespace: ns, ID: id}}
		if st := x.states[id]; !x.lost && (st == nil || st.state.Deleted) {
			return x.reportOwner(b, h, false, "is said to be that of a run that is not there")
		}
		delete(x.large[id], h.digest)
		both, err := x.has(store.ReferredKey(h.digest[:], h.run))
		if err != nil || both {
			return err
		}
		return x.reportOwner(b, h, true, "does not know that it is the run's")
	})
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(x.large)) {
		for _, d := range slices.SortedFunc(maps.Keys(x.large[id]), compareDigests) {
			goes, err := x.goes(d)
			if err == nil && goes {
				err = x.reportOwner(b, holding{digest: d, run: store.RunKey{Namespace: ns, ID: id}}, true, "is not said to be the run's")
			}
			if err != nil {
				return err
			}
		}
	}
	return x.apply(b)
}

// reportOwner reports a wrong key of payload ownership, and corrects both keys of the payload and its run.
func (x *partitionCheck) reportOwner(b *pebble.Batch, h holding, has bool, what string) error {
	x.report.Add(Problem{Kind: "payload", Partition: int(x.p), Namespace: h.run.Namespace, Run: h.run.ID,
		Text: fmt.Sprintf("the large payload %s %s", h.digest, what), Repaired: x.repair})
	if !x.repair {
		return nil
	}
	for _, k := range [][]byte{store.RefersKey(h.run, h.digest[:]), store.ReferredKey(h.digest[:], h.run)} {
		if has {
			_ = b.Set(k, nil, nil)
		} else {
			_ = b.Delete(k, nil)
		}
	}
	return x.flush(b)
}

// goes reports whether a payload is deleted with the last run that is known to have it. Payloads of earlier releases
// are not.
func (c *checker) goes(d store.Digest) (goes bool, err error) {
	prefix := store.GlobalKey(0, store.TableReferred, d[:])
	err = c.s.scan(prefix, store.PrefixEnd(prefix), func(k, _ []byte) (bool, error) {
		goes = len(k) > len(prefix) // the key without a run is the first one
		return false, nil
	})
	return goes, err
}

// has reports whether a key exists.
func (c *checker) has(key []byte) (has bool, err error) {
	err = c.s.scan(key, append(slices.Clone(key), 0), func(_, _ []byte) (bool, error) {
		has = true
		return false, nil
	})
	return has, err
}

// holders checks the reverse keys: each run that a payload names must have the key for the payload. Without it, the
// payload would stay when the run is deleted.
func (c *checker) holders() error {
	b := c.s.db.NewBatch()
	defer c.s.drop(b)
	const digestBytes, spaceBytes = len(store.Digest{}), 4
	err := c.each(0, store.NoPartition, store.TableReferred, func(rest, _ []byte) error {
		if len(rest) == digestBytes {
			return nil
		}
		if len(rest) <= digestBytes+spaceBytes {
			c.whole("key", "a key of a run that has a large payload is %x", rest)
			return nil
		}
		d, ns := store.Digest(rest[:digestBytes]), store.NamespaceID(binary.BigEndian.Uint32(rest[digestBytes:]))
		run := store.RunKey{Namespace: ns, ID: string(rest[digestBytes+spaceBytes:])}
		has, err := c.has(store.RefersKey(run, d[:]))
		if err != nil || has {
			return err
		}
		c.report.Add(Problem{Kind: "payload", Partition: -1, Namespace: run.Namespace, Run: run.ID, Repaired: c.repair,
			Text: fmt.Sprintf("the large payload %s names a run which has it not", d)})
		if !c.repair {
			return nil
		}
		_ = b.Delete(store.ReferredKey(d[:], run), nil)
		return c.flush(b)
	})
	if err != nil {
		return err
	}
	return c.apply(b)
}

// sealKeys reads the keys with which records may be sealed.
func (c *checker) sealKeys() error {
	return c.each(0, store.NoPartition, store.TableKey, func(rest, v []byte) error {
		k, err := store.DecodeKey(v)
		switch {
		case err != nil:
			c.whole("seal", "the key %q: %v", rest, err)
		case k.ID != string(rest):
			c.whole("seal", "the key %q is called %q in its record", rest, k.ID)
		}
		c.keys[string(rest)] = true
		return nil
	})
}

// sealed reports a sealed record whose key id is missing or unknown. It does not decode the record, which would need
// the key.
func (x *partitionCheck) sealed(ns store.NamespaceID, run, what string, is bool, record []byte) {
	if !is {
		return
	}
	id, _, err := store.SealedKey(record)
	switch {
	case err != nil:
		x.problem("seal", ns, run, "%s: %v", what, err)
	case !x.keys[id]:
		x.problem("seal", ns, run, "%s has a record that is encrypted with the key %q, which is not among those of the data", what, id)
	}
}
