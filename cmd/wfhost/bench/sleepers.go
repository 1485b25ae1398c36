package bench

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/wfhost/wfhost/host"
)

// Sleepers measures the resources of runs that only sleep.
type Sleepers struct {
	Hosted `embed:""`
}

const (
	// sleepers is the default number of runs.
	sleepers = 10_000
	// idleFor is the default duration of the idle measurement.
	idleFor = 10 * time.Second
	// farOff is the duration of the sleeps: longer than any measurement.
	farOff = 1000 * time.Hour
	// restarts is how often the host is stopped and opened again.
	restarts = 5
	// restartLead is how long before its instant a run is started that comes due while the host is down. It applies to
	// the first stop of the host; later ones use twice the duration of the previous stop plus restartSpare.
	restartLead  = 2 * time.Second
	restartSpare = 500 * time.Millisecond
)

// Run runs the measurement.
func (b *Sleepers) Run(env *Env) error {
	if b.N == 0 {
		b.N = sleepers
	}
	if b.For == 0 {
		b.For = idleFor
	}
	if err := errors.Join(b.limits(), between("n", b.N, 1, maxRuns)); err != nil {
		return err
	}
	s, err := b.session(env, "sleepers", "sleep")
	if err != nil {
		return err
	}
	defer s.end()
	s.notef("%d runs sleep for %v. The host is watched for %v, %v after the last start. Then it is stopped and opened again %d "+
		"times, in the same process, each time with one run that came due meanwhile; the time is from before Open until what "+
		"that run did is durable. A commit of another run and one restart before are the warm-up.", b.N, farOff, b.For, b.WarmUp,
		restarts)
	if err := b.asleep(s); err != nil {
		return err
	}
	if err := b.idle(s); err != nil {
		return err
	}
	if err := b.restart(s); err != nil {
		return err
	}
	return s.show()
}

// asleep starts the runs and reports their resources.
func (b *Sleepers) asleep(s *session) error {
	data := filepath.Join(s.dir, "data")
	if err := s.startAll("trial", "sleep", 0, 1, func(int) []byte { return input(0) }); err != nil {
		return err
	}
	if err := s.completed(s.ctx, runID("trial", 0)); err != nil {
		return err
	}
	settle()
	rss0, _ := memory()
	disk0, err := diskBytes(data)
	if err != nil {
		return err
	}
	s.env.Say(fmt.Sprintf("starting %d runs", b.N))
	due := time.Now().Add(farOff).UnixMilli()
	w := s.open()
	if err := s.startAll("sleeper", "sleep", 0, b.N, func(i int) []byte { return input(due + int64(i)) }); err != nil {
		return err
	}
	if _, _, err := s.h.WaitIdle(s.ctx); err != nil {
		return err
	}
	u, err := w.close()
	if err != nil {
		return err
	}
	if err := s.sleep(time.Now().Add(b.WarmUp)); err != nil {
		return err
	}
	asIs, _ := memory()
	settle()
	rss, _ := memory()
	n := float64(b.N)
	s.number("sleepers", "sleeping runs", count, n)
	s.number("starts", "starts in a second", perSecond, n/u.elapsed.Seconds())
	s.stages()
	s.number("rss", "memory as it is (RSS)", size, asIs)
	s.number("rssCollected", "memory after a garbage collection (RSS)", size, rss)
	s.number("rssEmpty", "that before the starts (RSS)", size, rss0)
	s.number("peakRss", "most memory while they started (RSS)", size, u.peak)
	s.number("rssPerRun", "memory per run", size, math.Max(rss-rss0, 0)/n)
	s.number("disk", "data on disk, logs and caches included", size, u.disk)
	s.number("diskPerRun", "data on disk per run", size, (u.disk-disk0)/n)
	return nil
}

// idle measures the host while all runs sleep.
func (b *Sleepers) idle(s *session) error {
	s.env.Say("idle")
	w := s.open()
	if err := s.sleep(time.Now().Add(b.For)); err != nil {
		return err
	}
	u, err := w.close()
	if err != nil {
		return err
	}
	share := math.NaN()
	if u.hasCPU {
		share = u.cpu.Seconds() / u.elapsed.Seconds()
	}
	s.number("idle", "watched", seconds, u.elapsed.Seconds())
	s.number("idleCpu", "CPU time meanwhile", millis, u.cpuPer(1)/1000)
	s.number("idleCpuShare", "that as a share of one processor", ratio, share)
	s.number("idleRss", "memory at its end (RSS)", size, u.rss)
	s.number("idlePeakRss", "most memory meanwhile (RSS)", size, u.peak)
	s.number("idleCommits", "commits meanwhile", count, float64(u.commits))
	return nil
}

// restart stops the host, and opens it again once a run has come due.
func (b *Sleepers) restart(s *session) error {
	var opened, first []time.Duration
	lead := restartLead
	for i := range restarts + 1 { // the first round is the warm-up
		s.env.Say("restart")
		ended := make(chan time.Time, 1)
		id := runID("due", i)
		s.onCommit(func(r host.Run, now time.Time) {
			if r.ID == id && r.Status.Terminal() {
				ended <- now
			}
		})
		due := time.Now().Add(lead)
		if err := s.startAll("due", "sleep", i, i+1, func(int) []byte { return input(due.UnixMilli()) }); err != nil {
			return err
		}
		stopping := time.Now()
		if err := s.down(); err != nil {
			return err
		}
		if len(ended) > 0 {
			return fmt.Errorf("stopping the host took longer than %v: the run that was to be due meanwhile has ended", lead)
		}
		lead = 2*time.Since(stopping) + restartSpare
		if err := s.sleep(due.Add(time.Millisecond)); err != nil {
			return err
		}
		begun := time.Now()
		if err := s.up(); err != nil {
			return err
		}
		up := time.Since(begun)
		select {
		case now := <-ended:
			if i > 0 {
				opened, first = append(opened, up), append(first, now.Sub(begun))
			}
		case <-s.ctx.Done():
			return s.until(nil)
		}
	}
	settle()
	rss, _ := memory()
	s.latency("open", "host open after a stop", opened)
	s.latency("firstWake", "first wake after a stop, from before the open", first)
	s.number("rssRestarted", "memory after it and a garbage collection (RSS)", size, rss)
	return nil
}
