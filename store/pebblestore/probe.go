package pebblestore

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// probeBytes is the size of each of the two values that a probe commits: about a run's state, and a chunk of a short
// journal.
const probeBytes = 200

// Probe opens a database of its own below dir, with the options of a store and Pebble's log. commit makes one synced
// commit in it, bypassing this package: a batch of two keys with 200 bytes each. It is for measurements that compare a
// store with plain Pebble on the machine. commit is safe for concurrent use. end closes the database and leaves its
// files.
func Probe(dir string) (commit, end func() error, err error) {
	s, err := Open(filepath.Join(dir, "probe"), Options{FS: vfs.Default})
	if err != nil {
		return nil, nil, err
	}
	var n atomic.Uint64
	commit = func() error {
		b := s.db.NewBatch()
		key, value := binary.BigEndian.AppendUint64([]byte("probe/"), n.Add(1)), make([]byte, probeBytes)
		err := errors.Join(b.Set(append(key, 's'), value, nil), b.Set(append(key, 'j'), value, nil))
		if err == nil {
			err = b.Commit(pebble.Sync)
		}
		return errors.Join(err, b.Close())
	}
	return commit, s.Close, nil
}
