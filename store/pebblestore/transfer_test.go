package pebblestore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/transfer"
)

// TestEveryTableIsCopied compares the tables of the format with what a copy knows. If this fails for a new table, decide whether
// `wfhost store copy` copies it or makes it anew, and do that in Export and Import, or in Finish.
func TestEveryTableIsCopied(t *testing.T) {
	sorted := func(text string) string {
		b := []byte(text)
		slices.Sort(b)
		return string(b)
	}
	if want := sorted(partitionTables + wholeTables); sorted(copiedTables+derivedTables) != want {
		t.Errorf("a copy knows the tables %q, the format has %q", sorted(copiedTables+derivedTables), want)
	}
}

// TestUnknownRecordsAreNotCopied refuses a store with records that no copy would have.
func TestUnknownRecordsAreNotCopied(t *testing.T) {
	run := store.RunKey{ID: "gone"}
	for says, key := range map[string][]byte{
		`table "Z"`:           store.GlobalKey(0, 'Z', nil),
		`record "later"`:      store.GlobalKey(0, store.TableMeta, []byte("later")),
		"belongs to no run":   store.JournalKey(run, 0, 0),
		"of table 'o'":        store.IndexKey(run, store.TableOutput, 3),
		"nobody has created":  store.RunTableKey(store.RunKey{Namespace: 9, ID: "r"}, store.TableState),
		"key of a module has": store.GlobalKey(0, store.TableModule, []byte("short")),
	} {
		s, err := OpenTransfer("db", "db", Options{FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.db.Set(key, []byte{1}, pebble.Sync); err != nil {
			t.Fatal(err)
		}
		err = s.Export(context.Background(), func(*transfer.Record) error { return nil })
		if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMarkOfAnOlderRelease reads the mark of a copy as earlier releases do: they take each mark for a copy, in which nothing runs.
func TestMarkOfAnOlderRelease(t *testing.T) {
	fs := vfs.NewMem()
	s, err := OpenTransfer("db", "db", Options{FS: fs})
	if err == nil {
		err = s.SetMark(context.Background(), &transfer.Mark{State: transfer.Moved, Place: "elsewhere"})
	}
	if v, other := s.get(copyKey); err != nil || other != nil || v == nil || !s.IsCopy() {
		t.Error(v, err, other)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open("db", Options{FS: fs, ReadOnly: true}) // verify reads moved data
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}
