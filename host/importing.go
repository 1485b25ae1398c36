package host

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

const (
	// maxImports bounds the imports in memory at a time, each with MaxImportBytes and a module.
	maxImports = 2
	// maxComing bounds the imports that receive their file or wait, one per namespace. A slow file is on disk, and
	// delays no other import.
	maxComing = 64
	// maxImportWait is how long a received file waits for the imports before it: some replays of maxImportReplay.
	maxImportWait = 10 * time.Minute
	// smallSpool is how much of a file is kept in memory while it is received, and spoolPiece how much is written at
	// a time.
	smallSpool = 256 << 10
	spoolPiece = 1 << 20
	// spoolPattern names the files on disk.
	spoolPattern = "import-*.tmp"
)

// importing tracks the imports in progress.
type importing struct {
	mu sync.Mutex // guards in
	in []string   // names of the namespaces with an import in progress

	permits chan struct{} // holds an item for each import in memory: its permit
	acting  acting
}

// begin counts an import until end is called, or returns ErrBusy.
func (i *importing) begin(namespace string) (end func(), err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.in) >= maxComing || slices.Contains(i.in, namespace) {
		return nil, &joined{fmt.Errorf("%d imports go on; the limit is %d, and one into each namespace: try again later", len(i.in),
			maxComing), ErrBusy}
	}
	i.in = append(i.in, namespace)
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.in = slices.DeleteFunc(i.in, func(n string) bool { return n == namespace })
	}, nil
}

// waitForMemory waits for memory for an import, which is held until end is called.
func (h *Host) waitForMemory(ctx context.Context) (end func(), err error) {
	late := clock.System().NewTimer(maxImportWait)
	defer late.Stop()
	select {
	case h.importing.permits <- struct{}{}:
		return func() { <-h.importing.permits }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-h.closed:
		return nil, ErrClosed
	case <-late.C():
		return nil, &joined{fmt.Errorf("imports before this one took longer than %v: try again later", maxImportWait), ErrBusy}
	}
}

// spool is a received file, to be read once. A large file is on disk, encrypted with a key that exists only in
// memory: its content may be stored in the clear nowhere else.
type spool struct {
	io.Reader
	f *os.File // nil: the file is in memory
}

// spool reads a file to its end, however slow the sender. The caller closes it.
func (h *Host) spool(r io.Reader) (*spool, error) {
	head, err := io.ReadAll(io.LimitReader(r, smallSpool))
	if err != nil || len(head) < smallSpool {
		return &spool{Reader: bytes.NewReader(head)}, err
	}
	f, err := os.CreateTemp(h.cfg.Dir, spoolPattern)
	if err != nil {
		return nil, err
	}
	s := &spool{f: f}
	_ = os.Remove(f.Name()) // so that a crash leaves no file; on systems that do not allow it, Close removes the file
	if err := s.fill(io.MultiReader(bytes.NewReader(head), r), h.roomOnDisk); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// fill writes the file, and rewinds it for reading. room returns an error if the disk lacks space for that many
// bytes.
func (s *spool) fill(r io.Reader, room func(bytes int) error) error {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return err
	}
	zero := make([]byte, aes.BlockSize) // a zero IV: the key is used once
	w := cipher.StreamWriter{S: cipher.NewCTR(block, zero), W: s.f}
	for err == nil {
		err = room(spoolPiece)
		if err == nil {
			_, err = io.CopyN(w, r, spoolPiece)
		}
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	s.Reader = cipher.StreamReader{S: cipher.NewCTR(block, zero), R: s.f}
	_, err = s.f.Seek(0, io.SeekStart)
	return err
}

// Close removes the file.
func (s *spool) Close() {
	if s.f != nil {
		_ = s.f.Close()           // it was only read
		_ = os.Remove(s.f.Name()) // on systems that could not remove it before
	}
}

// removeSpools removes spooled files that a crash left behind, on systems where an open file cannot be removed.
func (h *Host) removeSpools(context.Context) error {
	if h.cfg.Dir == "" {
		return nil
	}
	files, err := os.ReadDir(h.cfg.Dir)
	for _, f := range files {
		if left, _ := filepath.Match(spoolPattern, f.Name()); left { // the pattern is valid
			err = errors.Join(err, os.Remove(filepath.Join(h.cfg.Dir, f.Name())))
		}
	}
	return err
}
