package pebblestore

import (
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore/logfs"
)

// tearing is a disk that checks, at writes and fsyncs of logs, what a power cut would leave of them.
type tearing struct {
	vfs.FS
	t *testing.T

	mu     sync.Mutex
	random *rand.Rand
	looks  int
	proven int // flipped bits that were noticed
}

// tornLog is a log whose file may contain an older log after the written part.
type tornLog struct {
	vfs.File
	disk    *tearing
	number  uint32
	synced  []byte // its content after the last fsync
	now     []byte
	written int
	durable int
}

func (d *tearing) Unwrap() vfs.FS { return d.FS }

func (d *tearing) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	return d.log(name, f, err)
}

func (d *tearing) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(old, name, c)
	return d.log(name, f, err)
}

func (d *tearing) log(name string, f vfs.File, err error) (vfs.File, error) {
	number, e := strconv.ParseUint(strings.TrimSuffix(filepath.Base(name), ".log"), 10, 32)
	if err != nil || e != nil {
		return f, err
	}
	old, err := d.FS.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(old)
	if err != nil {
		return nil, err
	}
	return &tornLog{File: f, disk: d, number: uint32(number), synced: b, now: append([]byte{}, b...)}, old.Close()
}

// Write implements vfs.File.
func (l *tornLog) Write(p []byte) (int, error) {
	l.now = append(l.now[:l.written], append(append([]byte{}, p...), l.now[min(l.written+len(p), len(l.now)):]...)...)
	l.look()
	l.written += len(p)
	return l.File.Write(p)
}

// Sync implements vfs.File.
func (l *tornLog) Sync() error { return l.SyncData() }

// SyncData implements vfs.File.
func (l *tornLog) SyncData() error {
	l.look()
	err := l.File.SyncData()
	l.synced, l.durable = append(l.synced[:0], l.now...), l.written
	return err
}

// look tears the log: some sectors of the part that is not durable have the new data, the others the old. Such a log
// does not count as damaged, and its durable part can be read. With a flipped bit in that part, it mostly counts as
// damaged.
func (l *tornLog) look() {
	d := l.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.random.IntN(4) > 0 {
		return
	}
	d.looks++
	sector := []int{64, 512, 4096}[d.random.IntN(3)]
	torn := append([]byte{}, l.synced...)
	if more := len(l.now) - len(torn); more > 0 { // the growth of the file may be lost
		torn = append(torn, make([]byte, d.random.IntN(more+1))...)
	}
	percent := d.random.IntN(101)
	for at := l.durable / sector * sector; at < len(torn); at += sector {
		if d.random.IntN(100) < percent {
			copy(torn[at:min(at+sector, len(torn))], l.now[at:])
		}
	}
	if end, damaged := logfs.Damaged(torn, l.number); damaged || end < l.durable {
		d.t.Errorf("log %d in sectors of %d bytes, of which %d %% were written: %d of %d bytes are durable, can be read up to %d, damaged: %v",
			l.number, sector, percent, l.durable, l.written, end, damaged)
	}
	if l.durable > 0 {
		torn[d.random.IntN(l.durable)] ^= 1 << d.random.IntN(8)
		if _, damaged := logfs.Damaged(torn, l.number); damaged {
			d.proven++
		}
	}
}

// TestTornLog commits from several goroutines, and checks what power cuts would leave, with any sectors of the
// non-durable part: none looks like damage, and most flipped bits do.
func TestTornLog(t *testing.T) {
	const writers, commits = 4, 150
	disk := &tearing{FS: vfs.NewMem(), t: t, random: rand.New(rand.NewPCG(1, 1))}
	s, err := Open("db", Options{FS: logfs.New(disk, "db", 1<<20)})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(2, uint64(w)))
			for i := range commits {
				value := make([]byte, 1<<random.IntN(18))
				for at := range value {
					value[at] = byte(random.IntN(256))
				}
				if err := s.db.Set(store.GlobalKey(0, 'Z', fmt.Append(nil, w, i%20)), value, pebble.Sync); err != nil {
					t.Error(err)
				}
				if i%50 == 49 { // and begins another log
					if err := s.db.Flush(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d looks, %d flipped bits were noticed", disk.looks, disk.proven); disk.looks < 100 || disk.proven < disk.looks/2 {
		t.Error("too little of it")
	}
}
