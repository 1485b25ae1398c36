package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store/pebblestore"
	"github.com/wfhost/wfhost/store/postgres"
)

// The names that host and guests share.
const (
	stepName   = "bench" // the handler, which does nothing
	signalName = "go"
)

// session is a host under measurement, with its report.
type session struct {
	*Report

	ctx    context.Context // done when the measurement ends or a run fails
	cancel context.CancelCauseFunc

	o       *Hosted
	env     *Env
	dir     string
	rate    int             // operations per second while latencies were measured; 0 = unpaced
	callers []int           // numbers of concurrent callers with which Pebble is measured beside the usual ones
	ratios  []func(machine) // report ratios to the machine's figures
	module  []byte          // of the guest, nil for the small one
	h       *host.Host
	store   *pebblestore.Store
	down    func() error // stops the host
	remove  func()
	profile *cpuProfile
	commit  atomic.Pointer[func(host.Run, time.Time)]
	ended   atomic.Pointer[func(host.Run)]
	step    atomic.Pointer[func(in []byte)]

	rssBase, rssUploaded float64 // before and after the upload of the guest
}

// stages reports the memory before any run. Later figures include it.
func (s *session) stages() {
	s.number("rssBase", "memory of the open host (RSS)", size, s.rssBase)
	s.number("rssUploaded", "memory with the guest uploaded (RSS)", size, s.rssUploaded)
}

// session opens a host and uploads the guest with the workflow. callers are numbers of concurrent callers with which
// Pebble is measured beside the usual ones.
func (o *Hosted) session(env *Env, bench, workflow string, callers ...int) (s *session, err error) {
	s = &session{o: o, env: env, callers: callers, profile: &cpuProfile{}}
	s.ctx, s.cancel = context.WithCancelCause(env.Ctx)
	defer func() {
		if err != nil {
			s.end()
		}
	}()
	guest := o.Guest
	if o.Module != "" {
		guest = filepath.Base(o.Module)
	}
	s.Report = newReport(bench, guest)
	if o.NoSync {
		s.noSync = true
		s.notef("NOTHING IS MADE DURABLE (--no-sync): these are no figures of a durable host.")
	}
	if o.Cold {
		s.notef("Nothing is kept of guests that sleep: each wake replays its journal (--cold).")
	}
	if o.GoSettings {
		s.notef("Go's runtime has its own settings (--go-settings).")
	}
	s.module, err = o.guest(env)
	if err != nil {
		return s, err
	}
	s.dir, s.remove, err = o.folder()
	if err != nil {
		return s, err
	}
	s.profile, err = newCPUProfile(o.CPUProfile)
	if err != nil {
		return s, err
	}
	err = s.up()
	if err != nil {
		return s, err
	}
	s.rssBase, _ = memory()
	err = s.upload(workflow)
	s.module = nil // the host has it now
	s.rssUploaded, _ = memory()
	return s, err
}

// up opens and runs the host.
func (s *session) up() error {
	cfg := host.Config{Dir: filepath.Join(s.dir, "data"), Compiler: s.env.Compiler,
		Events: host.Events{RunCommitted: s.committed, RunEnded: func(r host.Run, _ time.Duration) {
			if f := s.ended.Load(); f != nil {
				(*f)(r)
			}
		}}}
	if s.o.Cold {
		cfg.WarmBytes = -1
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return err
	}
	begun := time.Now()
	st, err := pebblestore.Open(filepath.Join(cfg.Dir, "store"), pebblestore.Options{NoSync: s.o.NoSync,
		Elapsed: func() time.Duration { return time.Since(begun) }})
	if err != nil {
		return err
	}
	cfg.Store, s.store = st, st
	stores := st.Close
	if s.o.Store != "" {
		pg, err := postgres.Open(s.env.Ctx, s.o.Store, postgres.Options{Migrate: true})
		if err != nil {
			return errors.Join(err, st.Close())
		}
		s.notef("The runs are in %s; the figures of the machine and of the store on disk are Pebble's.", pg.Place())
		cfg.Store = pg
		stores = func() error { return errors.Join(pg.Close(), st.Close()) }
	}
	h, err := host.Open(s.env.Ctx, cfg)
	if err != nil {
		return errors.Join(err, stores())
	}
	h.HandleRawStep(stepName, func(_ context.Context, in []byte) ([]byte, error) {
		if f := s.step.Load(); f != nil {
			(*f)(in)
		}
		return nil, nil
	})
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- h.Run(ctx) }()
	s.h = h
	s.down = func() error {
		s.down = nil
		stop()
		return errors.Join(<-ran, h.Close(), stores())
	}
	return nil
}

// committed takes a run whose commit is durable.
func (s *session) committed(r host.Run) {
	if (r.Status == host.Failed || r.Status == host.Stuck) && r.Namespace == "" {
		go s.broken(r.ID)
	}
	if f := s.commit.Load(); f != nil {
		(*f)(r, time.Now())
	}
}

// broken ends the measurement, since a run failed.
func (s *session) broken(id string) {
	_, err := s.h.ResultRaw(s.ctx, id)
	s.cancel(fmt.Errorf("the guest %s does not do what the measurement needs: run %s: %w", s.Guest, id, err))
}

// until waits until a channel is closed or the session ends.
func (s *session) until(c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// sleep waits until an instant.
func (s *session) sleep(at time.Time) error {
	ctx, cancel := context.WithDeadline(s.ctx, at)
	defer cancel()
	<-ctx.Done()
	return context.Cause(s.ctx)
}

// end stops the host and removes the data.
func (s *session) end() {
	s.cancel(nil)
	if s.down != nil {
		_ = s.down() // the data is discarded
	}
	_ = s.profile.stop() // show has stopped it already, or a worse error is being reported
	if s.remove != nil {
		s.remove()
	}
}

// onCommit sets the callback for commits; nil removes it.
func (s *session) onCommit(f func(host.Run, time.Time)) { set(&s.commit, f, f == nil) }

// onEnd sets the callback for runs whose end is durable; nil removes it.
func (s *session) onEnd(f func(host.Run)) { set(&s.ended, f, f == nil) }

// onStep sets the callback that the handler calls with its input; nil removes it.
func (s *session) onStep(f func(in []byte)) { set(&s.step, f, f == nil) }

// set stores a function, or nil.
func set[F any](p *atomic.Pointer[F], f F, none bool) {
	if none {
		p.Store(nil)
	} else {
		p.Store(&f)
	}
}

// input encodes the input of the workflows.
func input(numbers ...int64) []byte {
	b := []byte{'['}
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return append(b, ']')
}

// runID returns the id of run n; numberOf is its inverse.
func runID(what string, n int) string { return what + "-" + strconv.Itoa(n) }

// numberOf returns the number in a run's id, false if the id has another prefix.
func numberOf(what, id string) (int, bool) {
	text, ok := strings.CutPrefix(id, what+"-")
	n, err := strconv.Atoi(text)
	return n, ok && err == nil
}

// starters is the number of concurrent starts while many runs are started.
const starters = 256

// startAll starts runs of a workflow with the numbers from (inclusive) to (exclusive).
func (s *session) startAll(what, workflow string, from, to int, in func(i int) []byte) error {
	return each(s.ctx, starters, from, to, func(ctx context.Context, i int) error {
		_, err := s.h.StartRaw(ctx, workflow, in(i), host.WithRunID(runID(what, i)))
		return err
	})
}

// each calls do once for each number from (inclusive) to (exclusive), in concurrent callers. It returns when all calls
// have returned. The first error cancels the ctx of the other calls; reaching the last number does not.
func each(ctx context.Context, callers, from, to int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	next.Store(int64(from))
	var wg sync.WaitGroup
	for range min(callers, to-from) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1) - 1)
				if i >= to {
					return
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// completed waits until a run has ended, and returns an error unless it completed.
func (s *session) completed(ctx context.Context, id string) error {
	_, err := s.h.ResultRaw(ctx, id)
	return err
}

// window is a measured time in progress.
type window struct {
	s       *session
	begun   time.Time
	cpu     time.Duration
	commits uint64
	store   pebblestore.Usage
}

// usage is what the host did and used in a measured time.
type usage struct {
	elapsed         time.Duration
	cpu             time.Duration
	hasCPU          bool
	commits         uint64
	store           pebblestore.Usage
	rss, peak, disk float64
}

// open begins the measured time.
func (s *session) open() window {
	s.profile.start()
	resetPeak()
	w := window{s: s, commits: s.h.Stats().Commits, store: s.store.Usage()}
	w.cpu, _ = cpuTime()
	w.begun = time.Now()
	return w
}

// close ends the measured time.
func (w window) close() (u usage, err error) {
	u.elapsed = time.Since(w.begun)
	cpu, ok := cpuTime()
	u.cpu, u.hasCPU = cpu-w.cpu, ok
	u.commits = w.s.h.Stats().Commits - w.commits
	now, was := w.s.store.Usage(), w.store
	u.store = pebblestore.Usage{LogBytes: now.LogBytes - was.LogBytes, TableBytes: now.TableBytes - was.TableBytes,
		Syncs: now.Syncs - was.Syncs, LogBusy: now.LogBusy - was.LogBusy}
	u.rss, u.peak = memory()
	u.disk, err = diskBytes(filepath.Join(w.s.dir, "data"))
	return u, err
}

// cpuPer returns the CPU time of one operation in microseconds, NaN if the system does not tell.
func (u usage) cpuPer(ops int) float64 {
	if !u.hasCPU || ops == 0 {
		return math.NaN()
	}
	return float64(u.cpu) / float64(time.Microsecond) / float64(ops)
}

// busyShare returns the busy share of all processors.
func busyShare(u usage) float64 {
	return u.cpu.Seconds() / u.elapsed.Seconds() / float64(runtime.NumCPU())
}

// tell reports the cost of operations.
func (s *session) tell(u usage, op string, ops int) {
	upper := strings.ToUpper(op[:1]) + op[1:]
	n := float64(ops)
	s.number("elapsed", "measured time", seconds, u.elapsed.Seconds())
	s.number(op+"s", op+"s", count, n)
	s.number(op+"s", op+"s in a second", perSecond, n/u.elapsed.Seconds())
	s.number("cpuPer"+upper, "CPU time per "+op, micros, u.cpuPer(ops))
	s.number("commitsPer"+upper, "commits per "+op, ratio, float64(u.commits)/n)
	s.number("syncsPer"+upper, "fsyncs per "+op, ratio, float64(u.store.Syncs)/n)
	s.number("logBytesPer"+upper, "written to the log per "+op, size, float64(u.store.LogBytes)/n)
	s.number("writtenToLog", "written in all, to what the log has", ratio,
		float64(u.store.LogBytes+u.store.TableBytes)/float64(u.store.LogBytes))
	s.number("processorsBusy", "processors busy", ratio, busyShare(u))
	s.number("logBusy", "log busy", ratio, u.store.LogBusy.Seconds()/u.elapsed.Seconds())
	s.tellMemory(u)
}

func (s *session) tellMemory(u usage) {
	s.number("rss", "memory at the end (RSS)", size, u.rss)
	s.number("peakRss", "most memory meanwhile (RSS)", size, u.peak)
	s.number("disk", "data on disk, logs and caches included", size, u.disk)
}

// show stops the host, measures the machine itself and prints the report. The machine's figures come last, because
// their memory would count as the host's.
func (s *session) show() error {
	s.number("cores", "cores", count, float64(runtime.NumCPU()))
	s.onCommit(nil)
	if err := errors.Join(s.profile.stop(), s.down()); err != nil {
		return err
	}
	s.env.Say("the machine's own figures")
	m, err := s.probe(s.ctx, s.dir, s.o.Probe, s.rate, s.callers...)
	if err != nil {
		return err
	}
	for _, report := range s.ratios {
		report(m)
	}
	return s.env.Show(s.Report)
}

// compare reports a rate as a share of Pebble's rate with the same number of callers.
func (s *session) compare(op string, perS float64, callers int) {
	s.ratios = append(s.ratios, func(m machine) {
		s.number(fmt.Sprint(op, "ToPebble", callers), fmt.Sprintf("%s to Pebble's commits, %d at a time", op, callers), ratio,
			perS/m.pebble[callers])
	})
}

// compareLatency reports the median of latencies as a multiple of an fdatasync's, and of one at the same rate as the
// measurement: between two operations, processor and disk go idle.
func (s *session) compareLatency(name, label string, l Latency) {
	s.ratios = append(s.ratios, func(m machine) {
		s.number(name+"P50ToFdatasync", label+" to fdatasync, p50", ratio, float64(l.P50)/float64(m.fdatasync.P50))
		if s.rate > 0 {
			s.number(name+"P50ToPacedFdatasync", fmt.Sprintf("%s to fdatasync, %d in a second, p50", label, s.rate), ratio,
				float64(l.P50)/float64(m.paced.P50))
		}
	})
}
