package pebblestore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
)

// A run of an earlier format that cannot be read does not affect other runs: it is in no list, and the log names it.
func TestIndexesLeaveCorruptRunsOut(t *testing.T) {
	const runs = 20
	fs := vfs.NewMem()
	s, err := Open("db", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		run := store.RunKey{ID: fmt.Sprint("r", i)}
		st := store.RunState{Run: run, Workflow: "w", Status: store.Sleeping, WakeUnixMs: store.NoWake, CreatedUnixMs: int64(i)}
		p, err := s.Acquire(t.Context(), run.Partition(), "a", 0)
		if err == nil {
			err = p.Commit(t.Context(), []store.RunCommit{{Run: run, Create: true, State: st}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := makeOld(s); err != nil {
		t.Fatal(err)
	}
	for id, value := range map[string]string{"r3": "12345678rubbish", "r7": ""} {
		if err := s.db.Set(store.RunTableKey(store.RunKey{ID: id}, store.TableState), []byte(value), pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s, err = Open("db", Options{FS: fs, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	page, err := s.List(t.Context(), store.Query{})
	if err != nil || len(page.Runs) != runs-2 {
		t.Errorf("%d runs are listed, %v", len(page.Runs), err)
	}
	if counts, err := s.Counts(t.Context(), 0); err != nil || len(counts) != 1 || counts[0].Runs.Total() != runs-2 {
		t.Errorf("counts %+v, %v", counts, err)
	}
	if _, err := s.State(t.Context(), store.RunKey{ID: "r3"}); !errors.Is(err, store.ErrCorrupt) {
		t.Error(err)
	}
	for _, id := range []string{"run=r3", "run=r7"} {
		if !strings.Contains(log.String(), id) {
			t.Errorf("the log does not name %s: %s", id, &log)
		}
	}
}
