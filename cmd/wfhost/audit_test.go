package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host/httpapi"
)

// statuses returns the statuses of the records in the files of a log, oldest first.
func statuses(t *testing.T, path string, old int) (list []int) {
	t.Helper()
	for i := old; i >= 0; i-- {
		name := path
		if i > 0 {
			name = fmt.Sprintf("%s.%d", path, i)
		}
		b, _ := os.ReadFile(name) // not all are there
		for line := range strings.Lines(string(b)) {
			var r httpapi.Record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			list = append(list, r.Status)
		}
	}
	return list
}

// TestAuditFiles fills an audit log. Its files stay below their limit and keep the newest lines of both kinds: a
// flood of one kind does not evict the other.
func TestAuditFiles(t *testing.T) {
	dir := t.TempDir()
	const lines = 100
	for part := range 2 { // it goes on after a restart
		a, err := openAudit(dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		a.changed.limit, a.refused.limit = 300, 300 // two lines
		for i := range lines / 2 {
			a.record(httpapi.Record{Caller: "local", Endpoint: "POST /v1/runs:bulk", Status: part*lines/2 + i})
		}
		for range 10 * lines {
			a.record(httpapi.Record{Caller: "192.0.2.1", Status: http.StatusForbidden, Refused: true})
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, old := range map[string]int{"audit.jsonl": oldAuditFiles, "audit-refused.jsonl": oldRefusedFiles} {
		files, err := filepath.Glob(filepath.Join(dir, name+"*"))
		if err != nil || len(files) != 1+old {
			t.Errorf("%s: %v %v", name, files, err)
		}
	}
	if list := statuses(t, filepath.Join(dir, "audit.jsonl"), oldAuditFiles); len(list) < 10 || list[len(list)-1] != lines-1 {
		t.Errorf("records of changes: %v", list)
	}
}

// TestAuditRecords reads a log of several files. Records written in the meantime are not read.
func TestAuditRecords(t *testing.T) {
	a, err := openAudit(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	a.changed.limit = 300 // two lines
	const lines = 7
	for i := range lines {
		a.record(httpapi.Record{Caller: "local", Endpoint: "POST /v1/runs:bulk", Status: i})
	}
	a.record(httpapi.Record{Caller: "192.0.2.1", Status: http.StatusForbidden, Refused: true})
	for refused, want := range map[bool]string{false: "0 1 2 3 4 5 6 ", true: "403 "} {
		r, err := a.records(refused)
		if err != nil {
			t.Fatal(err)
		}
		a.record(httpapi.Record{Status: http.StatusCreated, Refused: refused})
		got := ""
		for d := json.NewDecoder(r); ; {
			var rec httpapi.Record
			if err := d.Decode(&rec); err != nil {
				if err != io.EOF { //nolint:errorlint // of Decode
					t.Error(err)
				}
				break
			}
			got += fmt.Sprint(rec.Status, " ")
		}
		if err := r.Close(); got != want || err != nil {
			t.Errorf("refused %v: %q, want %q, %v", refused, got, want, err)
		}
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// If the next file of the log cannot be created, no record is lost, however often creation is retried. The file is
// created once that is possible again.
func TestAuditRotateFails(t *testing.T) {
	for what, broken := range map[string]string{"it cannot be opened": "audit.jsonl.next", "one cannot be renamed": "audit.jsonl.2"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "audit.jsonl")
		a, err := openAuditFile(path, 300, 3, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		write := func(times int) {
			for range times {
				a.again = 0 // as if so much was written meanwhile
				a.record(httpapi.Record{Caller: "local", Endpoint: "POST /v1/runs:bulk", Status: n})
				n++
			}
		}
		write(4)
		obstacle := filepath.Join(dir, broken)
		if err := os.MkdirAll(filepath.Join(obstacle, "full"), 0o700); err != nil {
			t.Fatal(err)
		}
		if broken == "audit.jsonl.2" { // the first free number, since the existing folder replaced a file of the log
			if err := os.MkdirAll(filepath.Join(dir, "audit.jsonl.3", "full"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		write(20)
		if info, err := os.Stat(path); err != nil || info.Size() < 20*100 {
			t.Errorf("%s: the file is not used on: %v", what, err)
		}
		if err := os.RemoveAll(obstacle); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "audit.jsonl.3")); err != nil {
			t.Fatal(err)
		}
		write(1)
		list := statuses(t, path, 3)
		for i, status := range list {
			if status != i {
				t.Fatalf("%s: records are lost: %v", what, list)
			}
		}
		if info, err := os.Stat(path); len(list) != n || err != nil || info.Size() > 300 {
			t.Errorf("%s: %d records of %d, and the file does not begin again: %v", what, len(list), n, err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// If someone removes the file of the log, a new one is created, and no older file is deleted.
func TestAuditFileTakenAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a, err := openAuditFile(path, 300, 3, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 { // two files
		a.record(httpapi.Record{Caller: "local", Endpoint: "POST /v1/runs:bulk", Status: i})
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		a.record(httpapi.Record{Caller: "local", Endpoint: "POST /v1/runs:bulk", Status: 10 + i})
	}
	if list := statuses(t, path, 3); len(list) < 4 || list[0] != 0 || list[1] != 1 || list[len(list)-1] != 12 {
		t.Errorf("records %v", list)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAuditHalfLine appends a record after a record that a crash or a full disk has cut. Both files can be read line
// by line, and only the cut record is lost.
func TestAuditHalfLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	write := func(list ...int) {
		t.Helper()
		a, err := openAuditFile(path, 300, 3, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range list {
			a.record(httpapi.Record{Caller: "local", Endpoint: "POST /v1/runs:bulk", Status: n})
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cut := func() {
		t.Helper()
		info, err := os.Stat(path)
		if err == nil {
			err = os.Truncate(path, info.Size()-5)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(1, 2)
	cut()
	write(3, 4) // record 3 goes into this file or the next one; either way, only record 2 is lost
	cut()
	write(5, 6, 7, 8)
	a, err := openAuditFile(path, 300, 3, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.records()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close(), a.Close()); err != nil {
		t.Fatal(err)
	}
	var got []int
	for line := range strings.Lines(string(text)) {
		var rec httpapi.Record
		if json.Unmarshal([]byte(line), &rec) == nil {
			got = append(got, rec.Status)
		}
	}
	if !slices.Equal(got, []int{1, 3, 5, 6, 7, 8}) {
		t.Errorf("records %v of\n%s", got, text)
	}
}

// TestAuditWriteIsCut cuts a write in the middle. The next record is not joined to the cut one.
func TestAuditWriteIsCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a, err := openAuditFile(path, 1<<20, 3, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	whole := a.write
	a.write = func(f *os.File, b []byte) (int, error) {
		n, err := whole(f, b[:len(b)/2])
		return n, errors.Join(err, errors.New("disk full"))
	}
	a.record(httpapi.Record{Status: 1})
	a.write = whole
	a.record(httpapi.Record{Status: 2})
	a.record(httpapi.Record{Status: 3})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if lines := strings.Split(string(b), "\n"); err != nil || len(lines) != 4 || !strings.Contains(lines[1], `"status":2`) ||
		!strings.Contains(lines[2], `"status":3`) {
		t.Errorf("%v\n%s", err, b)
	}
}
