package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/wfhost/wfhost/cmd/wfhost/server"
)

// Limits of the audit log.
const (
	// maxAuditFileBytes is how long the file becomes until a new one begins: some 200,000 lines, at the least 20,000.
	maxAuditFileBytes = 64 << 20
	// oldAuditFiles is how many files before it are kept, so that the log does not fill the disk.
	oldAuditFiles = 9
	// maxRefusedBytes and oldRefusedFiles are those limits for requests that were refused. Everybody can make such requests, so
	// they have a file of their own: they push no record of a change out.
	maxRefusedBytes = 16 << 20
	oldRefusedFiles = 3
	// rotateAgain is how many bytes are written after a file could not be begun, until it is tried again.
	rotateAgain = 64 << 10
)

// auditLog writes records to files as lines of JSON: one for what may have changed something, and one for what was refused.
type auditLog struct{ changed, refused *auditFile }

// openAudit opens the files of a log in a folder, or begins them.
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

func (a *auditLog) record(r server.Record) {
	if r.Refused {
		a.refused.record(r)
	} else {
		a.changed.record(r)
	}
}

// Close closes the files.
func (a *auditLog) Close() error { return errors.Join(a.changed.Close(), a.refused.Close()) }

// auditFile is a file to which lines are appended, with older ones behind it. A line is written when its request was answered,
// and is not fsynced.
type auditFile struct {
	path string
	log  *slog.Logger
	old  int // files that are kept beside it

	mu    sync.Mutex
	f     *os.File
	bytes int64
	limit int64
	again int64 // the next file is not begun before the file is as long as that: it could not be
}

func openAuditFile(path string, limit int64, old int, log *slog.Logger) (*auditFile, error) {
	a := &auditFile{path: path, log: log, limit: limit, old: old}
	return a, a.open(path)
}

// open opens a file in the place of the one that was open, which it leaves open.
func (a *auditFile) open(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, secretMode)
	if err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	a.f, a.bytes = f, info.Size()
	return nil
}

// record writes a record. A failure is logged: the request was answered already.
func (a *auditFile) record(r server.Record) {
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
	n, err := a.f.Write(b)
	if a.bytes += int64(n); err != nil {
		a.log.Error("audit log: a record is lost", "cause", err, "record", string(b))
	}
}

// rotate begins another file: audit.jsonl becomes audit.jsonl.1, that audit.jsonl.2 and so on; the oldest one goes. The new file
// is there before anything is renamed, and nothing is renamed onto a file that is not renamed itself: if rotate fails, no file is
// lost however often it is called, and what is open stays in use.
func (a *auditFile) rotate() error {
	name := func(i int) string { return fmt.Sprintf("%s.%d", a.path, i) }
	next, old, bytes := a.path+".next", a.f, a.bytes
	if err := a.open(next); err != nil {
		return err
	}
	err := a.shift(name)
	if err == nil {
		err = os.Rename(next, a.path)
	}
	if err != nil {
		err = errors.Join(err, a.f.Close())
		a.f, a.bytes = old, bytes
		return err
	}
	return old.Close()
}

// shift renames the file and those behind it, up to the first number that is free.
func (a *auditFile) shift(name func(int) string) error {
	if _, err := os.Lstat(a.path); errors.Is(err, fs.ErrNotExist) {
		return nil // somebody has taken it away, or shift has, and rotate failed then
	}
	free := 1
	for free < a.old {
		if _, err := os.Lstat(name(free)); errors.Is(err, fs.ErrNotExist) {
			break
		}
		free++
	}
	for i := free - 1; i > 0; i-- {
		if err := os.Rename(name(i), name(i+1)); err != nil {
			return err
		}
	}
	return os.Rename(a.path, name(1))
}

// Close closes the file.
func (a *auditFile) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.f.Close()
}
