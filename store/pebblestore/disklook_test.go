package pebblestore

import (
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// asked is a file system that counts queries for its free space.
type asked struct {
	vfs.FS
	free  atomic.Uint64
	times atomic.Int64
}

func (a *asked) GetDiskUsage(string) (vfs.DiskUsage, error) {
	a.times.Add(1)
	return vfs.DiskUsage{AvailBytes: a.free.Load(), TotalBytes: 1 << 40}, nil
}

// TestDiskLook queries the free space repeatedly: the answer is cached for a moment if there is plenty, and not
// cached otherwise.
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
	begun := look() // more than one query if the machine pauses
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
