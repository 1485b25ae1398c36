package datadir

import (
	"errors"
	"fmt"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// TestReserve fills a disk and empties it again: work is refused below the reserve, and accepted again somewhat above
// it. Each change is reported once, with its numbers.
func TestReserve(t *testing.T) {
	const mib = 1 << 20
	disk := store.Disk{Path: "data/store", Total: 1 << 40}
	var said []string
	g := NewDiskMonitor(Config{Disk: func() (store.Disk, error) { return disk, nil }, Changed: func(s State) {
		said = append(said, fmt.Sprint(s.Full, s.Free/mib, s.Reserve/mib))
	}})
	for _, c := range []struct {
		free  uint64
		bytes int
		want  string
	}{
		{257 * mib, 100, ""},
		{256 * mib, 0, ""},
		{256*mib + 999, 500, "no room on the disk of data/store: the request takes 1000 bytes, 256.0 MiB are free, and 256.0 MiB " +
			"of them are kept for the runs that are there"},
		{256*mib + 1000, 500, ""},
		{256*mib - 1, 0, "the disk of data/store is nearly full: 256.0 MiB are free, and 256.0 MiB are kept for the runs that are " +
			"there; nothing new is accepted until there is room"},
		{0, 0, "the disk of data/store is nearly full: 0 bytes are free, and 256.0 MiB are kept for the runs that are there; " +
			"nothing new is accepted until there is room"},
		{272*mib - 1, 0, "the disk of data/store is nearly full: 272.0 MiB are free, and 256.0 MiB are kept for the runs that are " +
			"there; nothing new is accepted until there is room"},
		{272 * mib, 0, ""},
		{256 * mib, 0, ""},
	} {
		disk.Free = c.free
		err := g.Admit(c.bytes)
		if _, full := errors.AsType[*FullError](err); full != (c.want != "") || full && err.Error() != c.want {
			t.Errorf("%d bytes with %d free: %v, want %q", c.bytes, c.free, err, c.want)
		}
	}
	if want := "[true 255 256 false 272 256]"; fmt.Sprint(said) != want {
		t.Errorf("reported: %v, want %s", said, want)
	}
}

// TestReserveOfADisk computes the reserve from the configuration and the size of the disk.
func TestReserveOfADisk(t *testing.T) {
	for _, c := range []struct {
		configured  int64
		total, want uint64
	}{
		{0, 1 << 40, DefaultReserve},
		{0, 1 << 30, 1 << 30 / 10},
		{0, 96 << 20, 40 << 20},
		{0, 64 << 20, 32 << 20},
		{1 << 30, 64 << 20, 1 << 30},
		{-1, 1 << 40, 0},
	} {
		g := NewDiskMonitor(Config{Reserve: c.configured, Disk: func() (store.Disk, error) { return store.Disk{Total: c.total}, nil }})
		s, err := g.Check()
		if err != nil || s.Reserve != c.want || s.Full != (c.want > 0) {
			t.Errorf("configured %d on a disk of %d: %+v %v, want a reserve of %d", c.configured, c.total, s, err, c.want)
		}
		if err := g.Admit(1 << 20); (err != nil) != (c.configured >= 0) {
			t.Errorf("configured %d on a disk that is full: %v", c.configured, err)
		}
	}
}

// TestUnknown accepts work if the free space is unknown.
func TestUnknown(t *testing.T) {
	g := NewDiskMonitor(Config{})
	if _, err := g.Check(); !errors.Is(err, ErrUnknown) || g.Admit(1) != nil {
		t.Error(err)
	}
	broken := errors.New("input/output error")
	g = NewDiskMonitor(Config{Disk: func() (store.Disk, error) { return store.Disk{}, broken }})
	if _, err := g.Check(); !errors.Is(err, broken) || g.Admit(1) != nil {
		t.Error(err)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1 KiB", 1 << 20: "1.0 MiB", 1 << 30: "1024.0 MiB"} {
		if got := size(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
