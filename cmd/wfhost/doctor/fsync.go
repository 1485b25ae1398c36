package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// Thresholds of fsyncs. Each commit waits for one, and acknowledgements wait for the commit: a run of n steps takes at
// least n fsyncs.
const (
	// fsyncNoDisk is faster than any disk: the system reports data in memory as written.
	fsyncNoDisk = 10 * time.Microsecond
	// fsyncSlowMedian makes a run of 100 steps take a second.
	fsyncSlowMedian = 10 * time.Millisecond
	// fsyncBadMedian leaves ten commits a second to each shard.
	fsyncBadMedian = 100 * time.Millisecond
	// fsyncSlowTail is a delay that people notice in a signal or an update.
	fsyncSlowTail = 100 * time.Millisecond
	// fsyncBadTail is half the delay that the store logs as a stall of the disk.
	fsyncBadTail = time.Second
)

const (
	fsyncFileBytes = 1 << 20
	fsyncWrite     = 4 << 10
	fewestFsyncs   = 3
	mostFsyncs     = 5000
)

// fsync measures how long the disk of a folder takes to sync a write.
func fsync(ctx context.Context, dir string, within time.Duration) Check {
	took, err := measureFsync(ctx, dir, within)
	if err != nil {
		return Check{Name: "fsync", Status: Fail, Found: fmt.Sprintf("it cannot be measured: %v", err),
			Advice: "run this as the user of the server, or give --data"}
	}
	kind, volatile, remote := fileSystem(dir)
	return judgeFsync(took, kind, volatile, remote)
}

// judgeFsync returns the verdict on durations. It sorts them.
func judgeFsync(took []time.Duration, kind string, volatile, remote bool) Check {
	slices.Sort(took)
	p50, p99 := took[len(took)/2], took[len(took)*99/100]
	c := Check{Name: "fsync", Status: OK, Found: fmt.Sprintf("p50 %s, p99 %s of %d fsyncs", short(p50), short(p99), len(took)),
		Values: map[string]any{"p50_ms": ms(p50), "p99_ms": ms(p99), "count": len(took), "file_system": kind}}
	if kind != "" {
		c.Found += ", " + kind
	}
	switch {
	case p50 > fsyncBadMedian || p99 > fsyncBadTail:
		c.Status = Fail
		c.Advice = fmt.Sprintf("use a faster disk, or one that fewer share: p50 must be within %s and p99 within %s",
			short(fsyncBadMedian), short(fsyncBadTail))
	case volatile:
		c.Status, c.Advice = Warn, "use a disk: this is memory, and everything is lost when the machine restarts"
	case remote:
		c.Status = Warn
		c.Advice = "use a local disk: locks and fsyncs of network file systems do not always do what they say"
	case p50 < fsyncNoDisk:
		c.Status = Warn
		c.Advice = fmt.Sprintf("ask whether fsyncs reach a disk: none takes less than %s, and a write cache without a battery loses "+
			"what was acknowledged", short(fsyncNoDisk))
	case p50 > fsyncSlowMedian || p99 > fsyncSlowTail:
		c.Status = Warn
		c.Advice = fmt.Sprintf("runs will be slow: p50 should be within %s and p99 within %s; measure more: wfhost bench disk",
			short(fsyncSlowMedian), short(fsyncSlowTail))
	}
	return c
}

// measureFsync writes to a file of constant size, as the store does with its log, and syncs each write.
func measureFsync(ctx context.Context, dir string, within time.Duration) (took []time.Duration, err error) {
	f, err := os.CreateTemp(dir, ".wfhost-doctor-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if _, err := f.Write(make([]byte, fsyncFileBytes)); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	block := make([]byte, fsyncWrite)
	begun := time.Now()
	for n := 0; n < mostFsyncs && (n < fewestFsyncs || time.Since(begun) < within); n++ {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		block[0] = byte(n)
		start := time.Now()
		if _, err := f.WriteAt(block, int64(n%(fsyncFileBytes/fsyncWrite))*fsyncWrite); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// short formats a duration with two or three digits.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return d.Round(10 * time.Nanosecond).String()
	case d < 10*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
