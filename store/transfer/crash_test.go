package transfer_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
	"github.com/wfhost/wfhost/store/transfer"
)

// watched calls at before and after each call that changes a store.
type watched struct {
	transfer.Store
	at func(what string)
}

func (w watched) SetMark(ctx context.Context, m *transfer.Mark) error {
	w.at("mark")
	defer w.at("mark")
	return w.Store.SetMark(ctx, m)
}

func (w watched) Clear(ctx context.Context) error {
	defer w.at("clear")
	return w.Store.Clear(ctx)
}

func (w watched) Import(ctx context.Context) (transfer.Importer, error) {
	i, err := w.Store.Import(ctx)
	return watchedImporter{i, w.at}, err
}

type watchedImporter struct {
	transfer.Importer
	at func(what string)
}

func (w watchedImporter) Add(ctx context.Context, r *transfer.Record) error {
	defer w.at("add")
	return w.Importer.Add(ctx, r)
}

func (w watchedImporter) Finish(ctx context.Context) error {
	defer w.at("finish")
	return w.Importer.Finish(ctx)
}

// inMemory is a file system that can lose what was not synced, as a power cut does. Folders x and y in it have stores.
type inMemory struct{ fs *vfs.MemFS }

func (m inMemory) open(dir string) (*pebblestore.Store, error) {
	return pebblestore.Open(dir, pebblestore.Options{FS: m.fs})
}

func (m inMemory) side(t testing.TB, dir string) transfer.Store {
	t.Helper()
	s, err := pebblestore.OpenTransfer(dir, dir, pebblestore.Options{FS: m.fs})
	ok(t, err)
	return s
}

func (m inMemory) records(t testing.TB, dir string) (n int) {
	t.Helper()
	s := m.side(t, dir)
	defer func() { ok(t, s.Close()) }()
	ok(t, s.Export(ctx, func(*transfer.Record) error { n++; return nil }))
	return n
}

// usable reports whether a host can open a store.
func (m inMemory) usable(t testing.TB, dir string) bool {
	t.Helper()
	s, err := m.open(dir)
	if err == nil {
		ok(t, s.Close())
		return true
	}
	if !errors.Is(err, transfer.ErrMoved) && !errors.Is(err, transfer.ErrIncomplete) {
		t.Fatal(err)
	}
	return false
}

func (m inMemory) copy(t testing.TB, at func(string)) {
	t.Helper()
	x, y := m.side(t, "x"), m.side(t, "y")
	defer func() { ok(t, errors.Join(x.Close(), y.Close())) }()
	_, err := transfer.Copy(ctx, watched{x, at}, watched{y, at}, transfer.Options{})
	ok(t, err)
}

// TestPowerCut cuts the power at every mark, and at many records, of a copy. A host can open the source, or the target, or in the
// instant between the last two marks none; never both, and never a target that lacks something. The same command completes the move.
func TestPowerCut(t *testing.T) {
	m := inMemory{vfs.NewCrashableMem()}
	s, err := m.open("x")
	ok(t, err)
	fill(t, s, 3, 30)
	ok(t, s.Close())
	want := m.records(t, "x")
	r := rand.New(rand.NewPCG(1, 1))
	seen := map[[2]bool]int{}
	m.copy(t, func(what string) {
		if what == "add" && r.IntN(want/10) > 0 {
			return
		}
		after := inMemory{m.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(2) * 50, RNG: r})}
		is := [2]bool{after.usable(t, "x"), after.usable(t, "y")}
		seen[is]++
		if is[1] && what != "mark" && !is[0] {
			t.Errorf("a host can open the target at %s", what)
		}
		if is[0] && is[1] { // before the first mark
			if n := after.records(t, "y"); n > store.Partitions {
				t.Errorf("a host can open both, at %s, and the target has %d records", what, n)
			}
			return
		}
		if !is[1] {
			after.copy(t, func(string) {})
		}
		if n := after.records(t, "y"); n != want || after.usable(t, "x") || !after.usable(t, "y") {
			t.Errorf("after another copy, the target has %d of %d records", n, want)
		}
	})
	if seen[[2]bool{true, false}] == 0 || seen[[2]bool{false, true}] == 0 || seen[[2]bool{false, false}] == 0 {
		t.Errorf("not all states were seen: %v", seen)
	}
}

// TestInterruptedMarks interrupts copies from and into a database at each mark, by an error. The next copy has nothing that the source
// has lost since.
func TestInterruptedMarks(t *testing.T) {
	for _, way := range [][2]func(testing.TB) place{{folder, database}, {database, folder}} {
		for stop := 1; stop <= 4; stop++ {
			from, to := way[0](t), way[1](t)
			s := from.open(t)
			fill(t, s, 5, 10)
			ok(t, s.Close())
			want := from.records(t)
			interrupt(t, from, to, stop)
			errFrom := from.try(t)
			errTo := to.try(t)
			switch {
			case stop == 1 && errFrom == nil && errTo == nil: // the target is empty
			case stop < 4 && (errFrom != nil || !errors.Is(errTo, transfer.ErrIncomplete)),
				stop == 4 && (!errors.Is(errFrom, transfer.ErrMoved) || !errors.Is(errTo, transfer.ErrIncomplete)):
				t.Errorf("after %d marks: source %v, target %v", stop-1, errFrom, errTo)
			}
			if stop < 4 { // the source goes on before the copy is repeated
				s = from.open(t)
				ok(t, errors.Join(s.SetQuota(ctx, store.Quota{}), s.Close()))
				want = from.records(t)
			}
			from.copyTo(t, to)
			same(t, want, to.records(t))
		}
	}
}

var errStop = errors.New("interrupted")

// interrupt lets a copy set stop-1 marks.
func interrupt(t testing.TB, from, to place, stop int) {
	t.Helper()
	a, b := from.side(t, false), to.side(t, true)
	defer func() { ok(t, errors.Join(a.Close(), b.Close())) }()
	marks := 0
	_, err := transfer.Copy(ctx, stopping{a, &marks, stop}, stopping{b, &marks, stop}, transfer.Options{})
	if !errors.Is(err, errStop) {
		t.Fatal(err)
	}
}

type stopping struct {
	transfer.Store
	marks *int
	stop  int
}

func (s stopping) SetMark(ctx context.Context, m *transfer.Mark) error {
	if *s.marks++; *s.marks == s.stop {
		return errStop
	}
	return s.Store.SetMark(ctx, m)
}

// TestRefusals copies what must not be copied.
func TestRefusals(t *testing.T) {
	m := inMemory{vfs.NewMem()}
	for _, dir := range []string{"x", "y", "z", "held"} {
		s, err := m.open(dir)
		ok(t, err)
		if dir != "z" {
			fill(t, s, 1, 2)
		}
		if dir == "held" {
			ok(t, s.MarkCopy())
		}
		ok(t, s.Close())
	}
	refused := func(from, to string, is error, says string) {
		t.Helper()
		a, b := m.side(t, from), m.side(t, to)
		defer func() { ok(t, errors.Join(a.Close(), b.Close())) }()
		_, err := transfer.Copy(ctx, a, b, transfer.Options{})
		if is != nil && !errors.Is(err, is) || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("from %s to %s: %v, want %q", from, to, err, says)
		}
	}
	refused("x", "y", transfer.ErrOccupied, "y has records")
	refused("held", "z", store.ErrCopy, "wfhost store reopen")
	refused("x", "held", store.ErrCopy, "held")
	x, z := m.side(t, "x"), m.side(t, "z")
	_, err := transfer.Copy(ctx, x, z, transfer.Options{Keep: true})
	ok(t, errors.Join(err, x.Close(), z.Close()))
	if s, err := m.open("z"); err != nil || !s.IsCopy() {
		t.Error("a copy that keeps the source is no copy", err)
	} else {
		ok(t, s.Close())
	}
	z = m.side(t, "z")
	other, err := transfer.Reopen(ctx, z)
	ok(t, errors.Join(err, z.Close()))
	if s, err := m.open("z"); err != nil || s.IsCopy() || other != "" {
		t.Error("it was reopened", err, other)
	} else {
		ok(t, s.Close())
	}
	m.copyTo(t, "x", "new")
	refused("x", "new2", transfer.ErrMoved, "is in new")
	refused("y", "x", transfer.ErrMoved, "is in new")
	x = m.side(t, "x")
	other, err = transfer.Reopen(ctx, x)
	ok(t, errors.Join(err, x.Close()))
	if other != "new" || !m.usable(t, "x") {
		t.Errorf("reopened: its data was moved to %q", other)
	}
}

func (m inMemory) copyTo(t testing.TB, from, to string) {
	t.Helper()
	a, b := m.side(t, from), m.side(t, to)
	defer func() { ok(t, errors.Join(a.Close(), b.Close())) }()
	_, err := transfer.Copy(ctx, a, b, transfer.Options{})
	ok(t, err)
}

// try returns why a host cannot open the store.
func (p place) try(t testing.TB) error {
	t.Helper()
	s, err := p.tryOpen()
	if err == nil {
		ok(t, s.Close())
	}
	return err
}
