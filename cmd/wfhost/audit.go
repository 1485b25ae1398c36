package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/wfhost/wfhost/host/httpapi"
)

// Limits of the audit log.
const (
	// maxAuditFileBytes is the size of a file before a new one begins: about 200,000 lines, at least 20,000.
	maxAuditFileBytes = 64 << 20
	// oldAuditFiles is how many older files are kept, so that the log does not fill the disk.
	oldAuditFiles = 9
	// maxRefusedBytes and oldRefusedFiles are the limits for refused requests. Anyone can make such requests, so they have a
	// separate file and cannot push out records of changes.
	maxRefusedBytes = 16 << 20
	oldRefusedFiles = 3
	// rotateAgain is how many bytes are written after a failed rotation before the next attempt.
	rotateAgain = 64 << 10
)

// auditLog writes records as JSON Lines to two files: requests that may have changed data, and refused requests.
type auditLog struct{ changed, refused *auditFile }

// openAudit opens the files of a log in a folder and creates them if necessary.
func openAudit(dir string, log *slog.Logger) (*auditLog, error) {
	changed, err := openAuditFile(filepath.Join(dir, "audit.jsonl"), maxAuditFileBytes, oldAuditFiles, log)
	if err != nil {
		return nil, err
	}
	refused, err := openAuditFile(filepath.Join(dir, "audit-refused.jsonl"), maxRefusedBytes, oldRefusedFiles, log)
	if err != nil {
		return nil, errors.Join(err, changed.Close())
	}
	return &auditLog{changed, refused}, nil
}

func (a *auditLog) record(r httpapi.Record) {
	if r.Refused {
		a.refused.record(r)
	} else {
		a.changed.record(r)
	}
}

// records returns the current contents of the log, oldest record first. The caller closes the reader.
func (a *auditLog) records(refused bool) (io.ReadCloser, error) {
	if refused {
		return a.refused.records()
	}
	return a.changed.records()
}

// Close closes the files.
func (a *auditLog) Close() error { return errors.Join(a.changed.Close(), a.refused.Close()) }

// auditFile is a file that lines are appended to, and its older files. A line is written after its request was answered, and
// is not fsynced.
type auditFile struct {
	path string
	log  *slog.Logger
	old  int // number of older files to keep

	mu    sync.Mutex
	f     *os.File
	bytes int64
	limit int64
	again int64 // file size for the next try after a failed rotation
	half  bool  // the last line may be incomplete, after a crash or a failed write
	write func(f *os.File, b []byte) (int, error)
}

func openAuditFile(path string, limit int64, old int, log *slog.Logger) (*auditFile, error) {
	a := &auditFile{path: path, log: log, limit: limit, old: old, write: (*os.File).Write}
	return a, a.open(path)
}

// open opens a file in place of the current one, which it does not close.
func (a *auditFile) open(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, secretMode)
	if err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	a.f, a.bytes, a.half = f, info.Size(), !endsLine(path, info.Size())
	return nil
}

// endsLine reports whether a file of the given size is empty or ends with a newline. It returns false for an unreadable file.
func endsLine(path string, size int64) bool {
	if size == 0 {
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // only read
	var last [1]byte
	_, err = f.ReadAt(last[:], size-1)
	return err == nil && last[0] == '\n'
}

// record writes a record. It logs errors, since the request was already answered.
func (a *auditFile) record(r httpapi.Record) {
	b, err := json.Marshal(r)
	if err != nil {
		a.log.Error("audit log", "cause", err)
		return
	}
	b = append(b, '\n')
	a.mu.Lock()
	defer a.mu.Unlock()
	if size := a.bytes + int64(len(b)); a.bytes > 0 && size > a.limit && size > a.again {
		a.again = 0
		if err := a.rotate(); err != nil {
			a.again = size + rotateAgain
			a.log.Error("audit log: begin another file; the one before is used until it can be", "cause", err)
		}
	}
	if a.half { // ends the incomplete line, so that this record is whole
		b = append([]byte{'\n'}, b...)
	}
	n, err := a.write(a.f, b)
	a.bytes += int64(n)
	if n > 0 {
		a.half = b[n-1] != '\n'
	}
	if err != nil {
		a.log.Error("audit log: a record is lost", "cause", err, "record", string(b))
	}
}

// rotate begins a new file: audit.jsonl becomes audit.jsonl.1, which becomes audit.jsonl.2 and so on; the oldest is deleted.
// The new file is created before the renames, and no rename overwrites a file that was not renamed itself. So a failed
// rotation loses no file, however often it is repeated, and the open file stays in use.
func (a *auditFile) rotate() error {
	next, old, bytes, half := a.path+".next", a.f, a.bytes, a.half
	if err := a.open(next); err != nil {
		return err
	}
	err := a.shift()
	if err == nil {
		err = os.Rename(next, a.path)
	}
	if err != nil {
		err = errors.Join(err, a.f.Close())
		a.f, a.bytes, a.half = old, bytes, half
		return err
	}
	return old.Close()
}

// name returns the path of an older file; 1 is the newest.
func (a *auditFile) name(i int) string { return fmt.Sprintf("%s.%d", a.path, i) }

// shift renames the file and the older files, up to the first free number.
func (a *auditFile) shift() error {
	if _, err := os.Lstat(a.path); errors.Is(err, fs.ErrNotExist) {
		return nil // it was removed by someone else, or by a shift before rotate failed
	}
	free := 1
	for free < a.old {
		if _, err := os.Lstat(a.name(free)); errors.Is(err, fs.ErrNotExist) {
			break
		}
		free++
	}
	for i := free - 1; i > 0; i-- {
		if err := os.Rename(a.name(i), a.name(i+1)); err != nil {
			return err
		}
	}
	return os.Rename(a.path, a.name(1))
}

// auditReader reads several files in sequence.
type auditReader struct {
	io.Reader
	files []*os.File
}

// Close closes the files.
func (r *auditReader) Close() (err error) {
	for _, f := range r.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// records opens the file and the older ones. No rotation can happen in the meantime.
func (a *auditFile) records() (io.ReadCloser, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all auditReader
	var parts []io.Reader
	for i := a.old; i >= 0; i-- {
		path := a.path
		if i > 0 {
			path = a.name(i)
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("read the audit log: %w", err), all.Close())
		}
		all.files = append(all.files, f)
		if i > 0 {
			parts = append(parts, f, strings.NewReader("\n")) // its last line may be incomplete
		} else {
			parts = append(parts, io.LimitReader(f, a.bytes)) // bytes beyond may be half a record
		}
	}
	all.Reader = io.MultiReader(parts...)
	return &all, nil
}

// Close closes the file.
func (a *auditFile) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.f.Close()
}
