package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
)

const (
	// maxExports and maxOwnExports bound the concurrent exports, of all namespaces and of one: each holds two or
	// three parts of 4 MiB.
	maxExports    = 16
	maxOwnExports = 2
	// exportGrace is how long an export keeps its permit however slow its reader is. After that, an export that finds no
	// permit takes the permit of one whose reader is slower than slowestExport, in bytes per second. At this rate, two
	// megabits, the largest file takes some ten minutes.
	exportGrace   = 10 * time.Second
	slowestExport = 256 << 10
	// exportPiece is how much is written between two checks that the export still has its permit.
	exportPiece = 64 << 10
)

// errTooSlow is the cause of an export that was evicted because its reader was too slow.
var errTooSlow = fmt.Errorf("the export was taken by less than %d bytes a second, and another one needed its permit: try again "+
	"later", slowestExport)

// exporting counts the exports in progress.
type exporting struct {
	clock clock.Clock

	mu  sync.Mutex // guards all
	all []*exported
}

// exported is one export in progress, and the writer for its file.
type exported struct {
	ns    store.NamespaceID
	w     io.Writer
	ctx   context.Context
	end   context.CancelCauseFunc
	began time.Time
	bytes atomic.Int64 // bytes that were written
}

// begin counts an export until end is called, or returns ErrBusy. The export writes to e until e's context ends.
func (x *exporting) begin(ctx context.Context, ns store.NamespaceID, w io.Writer) (e *exported, end func(), err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	own := 0
	for _, o := range x.all {
		if o.ns == ns {
			own++
		}
	}
	now := x.clock.Now()
	if own >= maxOwnExports || len(x.all) >= maxExports && !x.evictLocked(now) {
		return nil, nil, &joined{fmt.Errorf("too many exports go on, %d of them of this namespace; the limits are %d, and %d of one "+
			"namespace: try again later", own, maxExports, maxOwnExports), ErrBusy}
	}
	e = &exported{ns: ns, w: w, began: now}
	e.ctx, e.end = context.WithCancelCause(ctx)
	x.all = append(x.all, e)
	return e, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.removeLocked(e)
		e.end(nil)
	}, nil
}

func (x *exporting) removeLocked(e *exported) {
	for i, o := range x.all {
		if o == e {
			x.all = append(x.all[:i:i], x.all[i+1:]...)
			return
		}
	}
}

// evictLocked ends the slowest export that is past exportGrace and slower than slowestExport, and reports whether
// there is one. The caller holds mu.
func (x *exporting) evictLocked(now time.Time) bool {
	var slowest *exported
	least := float64(slowestExport)
	for _, e := range x.all {
		took := now.Sub(e.began)
		if took < exportGrace {
			continue
		}
		if rate := float64(e.bytes.Load()) / took.Seconds(); rate < least {
			slowest, least = e, rate
		}
	}
	if slowest == nil {
		return false
	}
	slowest.end(&joined{errTooSlow, ErrBusy})
	x.removeLocked(slowest)
	return true
}

// Write writes b to the reader in pieces, as long as the export has its permit.
func (e *exported) Write(b []byte) (n int, err error) {
	for n < len(b) {
		if e.ctx.Err() != nil {
			return n, context.Cause(e.ctx)
		}
		m, err := e.w.Write(b[n:min(n+exportPiece, len(b))])
		n += m
		e.bytes.Add(int64(m))
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// failed returns the error of an export.
func (e *exported) failed(err error) error {
	if err != nil && errors.Is(context.Cause(e.ctx), errTooSlow) {
		return context.Cause(e.ctx)
	}
	return err
}
