package pebblestore

import (
	"bytes"
	"encoding/binary"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// maxNewest bounds the remembered answers, of some 200 bytes each.
const maxNewest = 4096

// newest caches the latest version of a workflow, which every start needs, the newest version with a module, for starts
// of children, and the number of versions. Reading such a version from the database walks over newer versions, and its
// record may share a block with the bytes of a module, which would be read too.
//
// An answer changes only when a version that it may be about becomes durable or is deleted, so that an upload does not
// invalidate other answers.
type newest struct {
	mu     sync.Mutex // no lock is taken while it is held
	of     map[newestKey]*answer
	counts map[store.NamespaceID]int64 // number of versions
}

// newestKey is a question: the newest version of a workflow with a module, or the latest version.
type newestKey struct {
	ns       store.NamespaceID
	workflow string
	module   store.Digest
	latest   bool // the module is zero
}

// answer is a version, with number 0 if there is none. Until known is set, a caller of get is reading it.
type answer struct {
	known bool
	v     store.Version
}

// get returns an answer, and whether it is known. If it is not, the caller reads the version and calls put.
func (n *newest) get(k newestKey) (a *answer, v store.Version, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a = n.of[k]
	if a == nil {
		a = &answer{}
		n.set(k, a)
	}
	return a, a.v, a.known
}

// put remembers the version that was read since get, unless the answer has changed meanwhile, or remember is false. It
// does not replace an answer of another reader: its own version may have been deleted before the other reader read.
func (n *newest) put(k newestKey, a *answer, v store.Version, remember bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.of[k] != a || a.known:
	case remember:
		a.v, a.known = v, true
	default:
		delete(n.of, k)
	}
}

// set remembers an answer, and evicts another one if there are too many.
func (n *newest) set(k newestKey, a *answer) {
	if n.of == nil {
		n.of = map[newestKey]*answer{}
	}
	if n.of[k] == nil && len(n.of) >= maxNewest {
		for other := range n.of {
			delete(n.of, other)
			break
		}
	}
	n.of[k] = a
}

// questionsOf returns the questions that a version can answer.
func questionsOf(v *store.Version) []newestKey {
	keys := []newestKey{{ns: v.Namespace, workflow: v.Workflow, module: v.Module}}
	if !v.Imported {
		keys = append(keys, newestKey{ns: v.Namespace, workflow: v.Workflow, latest: true})
	}
	return keys
}

// added notes a durable version that is newer than all other versions of its workflow.
func (n *newest) added(v *store.Version) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count(v.Namespace, 1)
	for _, k := range questionsOf(v) {
		n.set(k, &answer{known: true, v: *v})
	}
}

// deleted forgets a deleted version.
func (n *newest) deleted(v *store.Version) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count(v.Namespace, -1)
	for _, k := range questionsOf(v) {
		if a := n.of[k]; a != nil && (!a.known || a.v.Number == v.Number) {
			delete(n.of, k)
		}
	}
}

// count adds to the number of versions of a namespace. The caller holds the lock, or has the store for itself.
func (n *newest) count(ns store.NamespaceID, more int64) {
	if n.counts == nil {
		n.counts = map[store.NamespaceID]int64{}
	}
	n.counts[ns] += more
	if n.counts[ns] == 0 {
		delete(n.counts, ns)
	}
}

// counted returns the number of versions of a namespace.
func (n *newest) counted(ns store.NamespaceID) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counts[ns]
}

// readVersions counts the versions of all namespaces when the store is opened. It deletes records of deleted versions
// that are not needed for the next number, which earlier releases kept. A record that cannot be read counts as a
// version.
func (s *Store) readVersions() error {
	b := s.db.NewBatch()
	defer s.drop(b)
	var last []byte // the record before, if its version is deleted
	err := s.eachVersion(func(k, record []byte) error {
		if n := len(k) - versionNumberBytes; last != nil && len(last) == len(k) && bytes.Equal(last[:n], k[:n]) && !s.readOnly {
			_ = b.Delete(last, nil)
		}
		last = nil
		if v, err := store.DecodeVersion(record); err == nil && v.Deleted {
			last = bytes.Clone(k)
			return s.applyPart(b)
		}
		s.newest.count(store.NamespaceID(binary.BigEndian.Uint32(k)), 1)
		return nil
	})
	if err != nil || b.Empty() {
		return err
	}
	return s.apply(b)
}

// versionNumberBytes is the length of the number at the end of a version's key.
const versionNumberBytes = 4

// applyPart writes the batch once it has indexBatch bytes.
func (s *Store) applyPart(b *pebble.Batch) error {
	if b.Len() < indexBatch {
		return nil
	}
	err := s.apply(b)
	if err == nil { // otherwise it may still be in use
		b.Reset()
	}
	return err
}

// eachVersion visits the records of versions of all namespaces, by their keys.
func (s *Store) eachVersion(visit func(k, record []byte) error) error {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; {
		ns := store.NamespaceID(binary.BigEndian.Uint32(it.Key()))
		prefix := store.GlobalKey(ns, store.TableWorkflow, nil)
		switch at := it.Key(); {
		case bytes.HasPrefix(at, prefix):
			err = visit(at, it.Value())
			ok = it.Next()
		case bytes.Compare(at, prefix) < 0:
			ok = it.SeekGE(prefix)
		default: // the next namespace that has a key
			ok = ns+1 != 0 && it.SeekGE(store.AppendPrefix(nil, ns+1, 0, 0))
		}
	}
	return firstError(firstError(err, it.Error()), it.Close())
}
