package pebblestore

import (
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// asked is a file system that counts how often it is asked for its room.
type asked struct {
	vfs.FS
	free  atomic.Uint64
	times atomic.Int64
}

func (a *asked) GetDiskUsage(string) (vfs.DiskUsage, error) {
	a.times.Add(1)
	return vfs.DiskUsage{AvailBytes: a.free.Load(), TotalBytes: 1 << 40}, nil
}

// TestDiskLook asks again and again how much room there is: what was plenty is known for a moment, and what was less is not.
func TestDiskLook(t *testing.T) {
	fs := &asked{FS: vfs.NewMem()}
	s := &Store{fs: fs}
	look := func() uint64 {
		t.Helper()
		d, err := s.Disk()
		if err != nil {
			t.Fatal(err)
		}
		return d.Free
	}
	for i := range uint64(10) {
		fs.free.Store(plenty - 1 - i)
		if free := look(); free != plenty-1-i {
			t.Errorf("%d are free, want %d", free, plenty-1-i)
		}
	}
	fs.free.Store(plenty)
	fs.times.Store(0)
	begun := look() // perhaps more than one look, if the machine stands still
	for range 1000 {
		look()
	}
	if n := fs.times.Load(); begun != plenty || n > 500 {
		t.Errorf("the file system was asked %d times", n)
	}
	s.disk.Load().at -= diskMoment
	fs.free.Store(7)
	if free := look(); free != 7 {
		t.Errorf("%d are free after a moment, want 7", free)
	}
}
