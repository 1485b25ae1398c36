package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"github.com/wfhost/wfhost/cmd/wfhost/server"
)

// Limits of the audit log.
const (
	// maxAuditFileBytes is how long the file becomes until a new one begins: some 300,000 lines.
	maxAuditFileBytes = 64 << 20
	// oldAuditFiles is how many files before it are kept, so that the log does not fill the disk.
	oldAuditFiles = 9
)

// auditLog writes records to a file as lines of JSON. It only appends. A line is written when its request was answered, and
// is not fsynced.
type auditLog struct {
	path string
	log  *slog.Logger

	mu    sync.Mutex
	f     *os.File
	bytes int64
	limit int64
}

// openAudit opens the log at a path, or begins it.
func openAudit(path string, log *slog.Logger) (*auditLog, error) {
	a := &auditLog{path: path, log: log, limit: maxAuditFileBytes}
	return a, a.open()
}

func (a *auditLog) open() error {
	f, err := os.OpenFile(a.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, secretMode)
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
func (a *auditLog) record(r server.Record) {
	b, err := json.Marshal(r)
	if err != nil {
		a.log.Error("audit log", "cause", err)
		return
	}
	b = append(b, '\n')
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bytes > 0 && a.bytes+int64(len(b)) > a.limit {
		if err := a.rotate(); err != nil {
			a.log.Error("audit log: begin another file", "cause", err)
		}
	}
	n, err := a.f.Write(b)
	if a.bytes += int64(n); err != nil {
		a.log.Error("audit log: a record is lost", "cause", err, "record", string(b))
	}
}

// rotate renames audit.jsonl to audit.jsonl.1, that to audit.jsonl.2 and so on; the oldest one goes. What is open stays in use if
// that fails.
func (a *auditLog) rotate() error {
	name := func(i int) string { return fmt.Sprintf("%s.%d", a.path, i) }
	for i := oldAuditFiles - 1; i > 0; i-- {
		if err := os.Rename(name(i), name(i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(a.path, name(1)); err != nil {
		return err
	}
	old := a.f
	if err := a.open(); err != nil {
		return err
	}
	return old.Close()
}

// Close closes the file.
func (a *auditLog) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.f.Close()
}
