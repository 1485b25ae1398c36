package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/wfhost/wfhost/store/pebblestore"
)

// machine has the figures of the disk and of Pebble on this machine, without a host.
type machine struct {
	fdatasync Latency
	paced     Latency         // fdatasyncs at the rate of the measurement
	pebble    map[int]float64 // synced commits per second, by the number of concurrent callers
}

// usualCallers are the numbers of concurrent callers with which Pebble is always measured.
var usualCallers = []int{1, 64, 256}

// blockBytes is the size of a write before each fdatasync: one block of most file systems.
const blockBytes = 4096

// blocks is the size of the file in blocks. It is overwritten repeatedly, like a recycled log.
const blocks = 1024

// fdatasyncs writes blocks of a file one after the other and syncs each: rate per second at fixed instants, or as fast
// as the disk can if rate is 0.
func fdatasyncs(ctx context.Context, dir string, d time.Duration, rate int) (samples []time.Duration, err error) {
	f, err := os.CreateTemp(dir, "fdatasync-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if _, err := f.Write(make([]byte, blocks*blockBytes)); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	block := make([]byte, blockBytes)
	for begun, i := time.Now(), 0; ctx.Err() == nil && (i == 0 || time.Since(begun) < d); i++ {
		if rate > 0 {
			pause(time.Until(begun.Add(offset(i, rate))))
		}
		from := time.Now()
		block[0] = byte(i)
		if _, err := f.WriteAt(block, int64(i%blocks)*blockBytes); err != nil {
			return nil, err
		}
		if err := dataSync(f); err != nil {
			return nil, err
		}
		samples = append(samples, time.Since(from))
	}
	return samples, ctx.Err()
}

// pebbleCommits commits to Pebble from concurrent callers, each with one commit after the other. It returns how long
// each commit took, and how many commits there were per second.
func pebbleCommits(ctx context.Context, dir string, callers int, d time.Duration) (samples []time.Duration, perS float64,
	err error) {
	dir = filepath.Join(dir, fmt.Sprint("pebble-", callers))
	commit, end, err := pebblestore.Probe(dir)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, end(), os.RemoveAll(dir)) }()
	if err := commit(); err != nil { // creates the log
		return nil, 0, err
	}
	all := make([][]time.Duration, callers)
	errs := make([]error, callers)
	begun := time.Now()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for first := true; ctx.Err() == nil && errs[i] == nil && (first || time.Since(begun) < d); first = false {
				from := time.Now()
				errs[i] = commit()
				all[i] = append(all[i], time.Since(from))
			}
		})
	}
	wg.Wait()
	samples = slices.Concat(all...)
	return samples, float64(len(samples)) / time.Since(begun).Seconds(), errors.Join(errors.Join(errs...), ctx.Err())
}

// probe measures the machine itself and reports its figures. rate is the rate of the paced fdatasyncs, 0 skips them;
// callers are numbers of concurrent callers beside the usual ones.
func (r *Report) probe(ctx context.Context, dir string, d time.Duration, rate int, callers ...int) (machine, error) {
	m := machine{pebble: map[int]float64{}}
	samples, err := fdatasyncs(ctx, dir, d, 0)
	if err != nil {
		return m, fmt.Errorf("fdatasync in %s: %w", dir, err)
	}
	m.fdatasync = r.latency("fdatasync", "fdatasync of 4 KiB", samples)
	if rate > 0 {
		samples, err = fdatasyncs(ctx, dir, d, rate)
		if err != nil {
			return m, fmt.Errorf("fdatasync in %s: %w", dir, err)
		}
		m.paced = r.latency("pacedFdatasync", fmt.Sprintf("fdatasync of 4 KiB, %d in a second", rate), samples)
	}
	for _, n := range append(slices.Clone(usualCallers), callers...) {
		m.pebble[n] = 0
	}
	for _, n := range slices.Sorted(maps.Keys(m.pebble)) {
		samples, perS, err := pebbleCommits(ctx, dir, n, d)
		if err != nil {
			return m, fmt.Errorf("pebble in %s: %w", dir, err)
		}
		m.pebble[n] = perS
		name, label := fmt.Sprint("pebble", n), fmt.Sprintf("Pebble's synced commits, %d at a time", n)
		r.number(name, label, perSecond, perS)
		r.latency(name, label, samples)
	}
	return m, nil
}

// Disk measures the machine alone.
type Disk struct {
	Common `embed:""`
}

// diskFor is the default duration of each figure: long enough that a second measurement reveals the burst credit of a
// rented disk.
const diskFor = 5 * time.Second

// Run runs the measurement.
func (d *Disk) Run(env *Env) error {
	if err := errors.Join(d.check(diskFor, 0), span("for", d.For, 0, maxProbe)); err != nil {
		return err
	}
	if d.N != 0 {
		return usagef("bench disk measures for a time: give --for, got --n %d", d.N)
	}
	dir, remove, err := d.folder()
	if err != nil {
		return err
	}
	defer remove()
	r := newReport("disk", "")
	r.notef("Each figure is taken for %v, without a warm-up.", d.For)
	if _, err := r.probe(env.Ctx, dir, d.For, 0); err != nil {
		return err
	}
	return env.Show(r)
}

// folder creates the folder for the data.
func (c *Common) folder() (dir string, remove func(), err error) {
	if c.Dir != "" {
		if err := os.MkdirAll(c.Dir, 0o700); err != nil {
			return "", nil, fmt.Errorf("--dir: %w", err)
		}
	}
	dir, err = os.MkdirTemp(c.Dir, "wfhost-bench-")
	if err != nil {
		return "", nil, fmt.Errorf("--dir: %w", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil // a leftover, in a folder whose name tells what it is
}
