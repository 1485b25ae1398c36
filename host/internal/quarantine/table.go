package quarantine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"sync/atomic"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// The table has a row for each run that computes: flag u32, namespace u32, length of the id u32, id. The flag of an
// empty row is 0. The byte order is the machine's, since the next process on the same machine reads it.
const (
	rows     = 1280 // as many as concurrent calls of handlers, and 256 guests
	rowBytes = rowHead + abi.MaxRunIDBytes + 4
	rowHead  = 12
	fileMode = 0o600
)

// table is the file, mapped into memory if the system supports that.
type table struct {
	path string
	b    []byte
	flag func(row int32) *atomic.Uint32
	put  func(at int, b []byte) // writes to the file; nil if the file is mapped
	done func() error
	lost bool // the file cannot be written any more
}

// set notes that a run computes. The flag is written last.
func (t *table) set(row int32, run store.RunKey) {
	t.write(row, 1, func(b []byte) {
		n := copy(b[rowHead:], run.ID)
		binary.NativeEndian.PutUint32(b[4:], uint32(run.Namespace))
		binary.NativeEndian.PutUint32(b[8:], uint32(n))
	})
}

// clear notes that the run of a row no longer computes.
func (t *table) clear(row int32) { t.write(row, 0, func([]byte) {}) }

// write writes a row. If the disk has no room for a mapped page, or the file was truncated, the write is a memory
// fault: the table is then given up, and the host continues without it.
func (t *table) write(row int32, flag uint32, fill func(b []byte)) {
	if t.lost {
		return
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			t.lost = true
		}
	}()
	at := int(row) * rowBytes
	b := t.b[at : at+rowBytes]
	fill(b)
	if t.put != nil {
		binary.NativeEndian.PutUint32(b, flag)
		t.put(at, b)
		return
	}
	t.flag(row).Store(flag)
}

// close removes the file, which marks the process as closed.
func (t *table) close() error {
	err := t.done()
	if rm := os.Remove(t.path); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
		err = errors.Join(err, rm)
	}
	if err != nil {
		return fmt.Errorf("close the table of runs that compute: %w", err)
	}
	return nil
}

// readTable returns the runs that computed when the previous process ended. unclean reports whether that was not closed.
func readTable(path string) (runs []store.RunKey, unclean bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the table of runs that computed: %w", err)
	}
	for ; len(b) >= rowBytes; b = b[rowBytes:] {
		n := binary.NativeEndian.Uint32(b[8:])
		if binary.NativeEndian.Uint32(b) != 1 || n > abi.MaxRunIDBytes {
			continue
		}
		runs = append(runs, store.RunKey{Namespace: store.NamespaceID(binary.NativeEndian.Uint32(b[4:])),
			ID: string(b[rowHead : rowHead+n])})
	}
	return runs, true, nil
}

// newTable makes an empty table. It writes all bytes, so that the disk has room for them.
func newTable(path string) (*table, error) {
	t := &table{path: path}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, fileMode)
	if err == nil {
		_, err = f.WriteAt(make([]byte, rows*rowBytes), 0)
		if err == nil {
			err = t.open(f)
		}
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make the table of runs that compute: %w", err)
	}
	return t, nil
}
