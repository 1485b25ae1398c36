package host

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
)

// TestSlowExportsMakeRoom has exports that no client reads hold all permits. Another export is refused as long as
// they may still be slow, and after that gets the permit of the slowest one. Exports that are read fast enough keep
// theirs.
func TestSlowExportsMakeRoom(t *testing.T) {
	c := clock.NewFake(time.Unix(0, 0))
	x := exporting{clock: c}
	begin := func(ns store.NamespaceID) *exported {
		t.Helper()
		e, _, err := x.begin(t.Context(), ns, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	var all []*exported
	for i := range maxExports {
		all = append(all, begin(store.NamespaceID(i/maxOwnExports)))
	}
	refused := func(ns store.NamespaceID) {
		t.Helper()
		if _, _, err := x.begin(t.Context(), ns, io.Discard); !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
	}
	c.Advance(exportGrace - time.Millisecond)
	refused(1000)
	for i, e := range all {
		if i != 3 && i != 5 {
			if _, err := e.Write(make([]byte, 2*slowestExport*int(exportGrace/time.Second))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := all[3].Write([]byte("a little")); err != nil {
		t.Fatal(err)
	}
	c.Advance(time.Millisecond)
	refused(0) // which has its two
	for n, slow := range []int{5, 3} {
		fresh := begin(1000)
		if _, err := all[slow].Write([]byte("more")); !errors.Is(err, errTooSlow) || !errors.Is(err, ErrBusy) || len(x.all) != maxExports {
			t.Errorf("%d: %v, %d exports", n, err, len(x.all))
		}
		if err := all[slow].failed(context.Canceled); !errors.Is(err, errTooSlow) {
			t.Error(err)
		}
		if _, err := fresh.Write([]byte("all of it")); err != nil {
			t.Error(err)
		}
	}
	refused(1001) // all others are fast, or have just begun
	for _, e := range all[6:] {
		if _, err := e.Write([]byte("more")); err != nil {
			t.Error(err)
		}
	}
}
