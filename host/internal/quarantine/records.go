package quarantine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// Records keeps the records of suspects.
type Records interface {
	// Change replaces the records by those that f makes of them, and returns them. If another host changes them meanwhile, it
	// calls f again.
	Change(ctx context.Context, f func([]Record) ([]Record, error)) ([]Record, error)
}

// encode returns records as JSON, nil if there are none.
func encode(records []Record) ([]byte, error) {
	if len(records) == 0 {
		return nil, nil
	}
	slices.SortFunc(records, func(a, b Record) int { return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.ID, b.ID)) })
	return json.Marshal(records)
}

// File returns records in a file, which no other process may change. The file is not synced: it survives the end of the
// process, but perhaps not a power cut. If it is unreadable, it is replaced, and a run that brings the host down becomes a
// suspect again.
func File(path string, log *slog.Logger) Records { return file{path, log} }

type file struct {
	path string
	log  *slog.Logger
}

func (x file) Change(_ context.Context, f func([]Record) ([]Record, error)) ([]Record, error) {
	records, err := f(x.read())
	if err != nil {
		return nil, err
	}
	b, err := encode(records)
	if err != nil {
		return nil, err
	}
	if b == nil {
		if err := os.Remove(x.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove suspects: %w", err)
		}
		return nil, nil
	}
	err = os.WriteFile(x.path+".new", b, fileMode)
	if err == nil {
		err = os.Rename(x.path+".new", x.path)
	}
	if err != nil {
		return nil, fmt.Errorf("write suspects: %w", err)
	}
	return records, nil
}

func (x file) read() (records []Record) {
	b, err := os.ReadFile(x.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, &records)
	}
	if err != nil {
		x.log.Warn("the suspects of earlier processes cannot be read", "cause", err)
		return nil
	}
	return records
}

// Cells returns records that all hosts of a store share, in one cell of a queue that no workflow has.
func Cells(s store.LimitStore) Records { return cells{s} }

type cells struct{ store store.LimitStore }

var (
	cellQueue = store.RunKey{ID: "suspects/"}
	cellKey   = []byte("records")
)

func (x cells) Change(ctx context.Context, f func([]Record) ([]Record, error)) ([]Record, error) {
	for {
		before := store.Cell{Key: cellKey}
		list, err := x.store.Cells(ctx, store.CellQuery{Queue: cellQueue, Limit: 1})
		if err != nil {
			return nil, err
		}
		var records []Record
		if len(list) > 0 {
			before.Value = list[0].Value
			if err := json.Unmarshal(before.Value, &records); err != nil {
				return nil, fmt.Errorf("%w: suspects: %w", store.ErrCorrupt, err)
			}
		}
		records, err = f(records)
		if err != nil {
			return nil, err
		}
		after, err := encode(records)
		if err != nil || string(after) == string(before.Value) {
			return records, err
		}
		err = x.store.SetCells(ctx, store.QueueSet{Queue: cellQueue, Before: before, Cells: []store.Cell{{Key: cellKey, Value: after}}})
		if !errors.Is(err, store.ErrConflict) {
			return records, err
		}
	}
}
