package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wfhost/wfhost/host"
)

// Tenants measures how late the runs of one namespace wake: alone, and while another namespace floods the host.
type Tenants struct {
	Hosted `embed:""`

	Rate         int           `help:"Wakes in a second." default:"100"`
	Lead         time.Duration `help:"How long before the first wake the starts begin." default:"5s"`
	Beside       []string      `help:"Of starts, compute, logs, handles, children, uploads; default: the first four."`
	MaxInstances int64         `help:"Quota of the other tenant: guests that compute; 0: none."`
	MaxRuns      int64         `help:"Quota of the other tenant: runs that have not ended; 0: that of all."`
	Starts       int64         `help:"Quota of the other tenant: starts a second; 0: none."`
	Wakes        int64         `help:"Quota of the other tenant: wakes a second; 0: none."`
	Bytes        int64         `help:"Quota of the other tenant: bytes that its runs write a second; 0: none."`
	MaxVersions  int64         `help:"Quota of the other tenant: versions of its workflows; 0: none."`
}

// tenantsFor is the default duration of each of the two parts.
const tenantsFor = 20 * time.Second

// check validates the flags.
func (b *Tenants) check() error {
	if len(b.Beside) == 0 {
		b.Beside = []string{"starts", "compute", "logs", "handles"}
	}
	for _, kind := range b.Beside {
		if !slices.Contains(floodKinds(), kind) {
			return usagef("--beside must be of %s, got %q", strings.Join(floodKinds(), ", "), kind)
		}
	}
	if b.Guest != Small || b.Module != "" {
		return usagef("bench tenants has workflows of its own: leave --guest and --module out")
	}
	return errors.Join(b.Common.check(tenantsFor, 0), between("rate", b.Rate, 1, maxRate),
		span("lead", b.Lead, time.Second, maxLead))
}

// Run runs the measurement.
func (b *Tenants) Run(env *Env) error {
	if err := b.check(); err != nil {
		return err
	}
	s, err := b.session(env, "tenants", "sleep")
	if err != nil {
		return err
	}
	defer s.end()
	s.notef("%d wakes in a second of one namespace: alone, and while another namespace floods the host with %s. Lateness is "+
		"from the instant until what the run did is durable.", b.Rate, strings.Join(b.Beside, ", "))
	alone, err := b.sleepers(s, "alone")
	if err != nil {
		return err
	}
	f, err := s.flood(b.Beside, host.Quota{MaxRuns: b.MaxRuns, MaxInstances: b.MaxInstances, StartsPerSecond: b.Starts,
		WakesPerSecond: b.Wakes, BytesPerSecond: b.Bytes, MaxVersions: b.MaxVersions})
	defer func() { _ = f.end() }()
	if err != nil {
		return err
	}
	w, before := s.open(), f.started.Load()
	beside, err := b.sleepers(s, "beside")
	if err != nil {
		return err
	}
	u, err := w.close()
	if err != nil {
		return err
	}
	if err := f.end(); err != nil {
		return err
	}
	x := s.latency("alone", "lateness alone, until durable", alone.late)
	y := s.latency("beside", "lateness beside the flood, until durable", beside.late)
	s.number("besideToAloneP50", "beside the flood to alone, p50", ratio, float64(y.P50)/float64(x.P50))
	s.number("besideToAloneP99", "beside the flood to alone, p99", ratio, float64(y.P99)/float64(x.P99))
	s.number("early", "wakes before their instant", count, float64(alone.early+beside.early))
	s.number("floodStarts", "starts of the flood in a second", perSecond, float64(f.started.Load()-before)/u.elapsed.Seconds())
	s.number("floodUploads", "uploads of the flood in a second", perSecond, float64(f.uploaded.Load())/u.elapsed.Seconds())
	s.number("floodRefused", "refused starts and uploads of the flood", count, float64(f.refused.Load()))
	ns, err := s.h.Namespace(s.ctx, floodSpace)
	if err != nil {
		return err
	}
	used, err := ns.Usage(s.ctx)
	if err != nil {
		return err
	}
	s.number("floodRuns", "live runs of the flood at the end", count, float64(used.Runs))
	s.number("commits", "commits of runs in a second, beside the flood", perSecond, float64(u.commits)/u.elapsed.Seconds())
	s.number("processorsBusy", "processors busy", ratio, busyShare(u))
	s.tellMemory(u)
	return s.show()
}

// sleepers starts the sleeping runs of the honest tenant, and returns how late they woke.
func (b *Tenants) sleepers(s *session, what string) (*schedule, error) {
	warm, n, err := b.amount(b.Rate)
	if err != nil {
		return nil, err
	}
	total := warm + n
	runs := (total + wakesPerRun - 1) / wakesPerRun
	s.env.Say(fmt.Sprintf("%d wakes, %s", total, what))
	c := newSchedule(time.Now().Add(b.Lead).Truncate(time.Millisecond), b.Rate, runs, warm, total)
	s.onCommit(func(r host.Run, now time.Time) {
		if i, ok := numberOf(what, r.ID); ok && r.Namespace == "" {
			c.commit(i, r, now)
		}
	})
	if err := s.startAll(what, "sleep", 0, runs, c.input); err != nil {
		return nil, err
	}
	if behind := time.Since(c.first); behind > 0 {
		return nil, usagef("starting %d runs took %v longer than there was time before the first wake: give a longer --lead, got %v",
			runs, behind.Round(time.Millisecond), b.Lead)
	}
	return c, s.until(c.served)
}
