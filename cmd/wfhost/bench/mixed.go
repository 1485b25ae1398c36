package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/host"
)

// Mixed keeps a host busy for a long time with all kinds of work and samples its resources. Unbounded growth shows in
// its memory and its disk.
type Mixed struct {
	Hosted `embed:""`

	Rate    int           `help:"Starts in a second." default:"50"`
	Longest time.Duration `help:"The longest sleep; the shortest is 10 ms." default:"10m"`
	Keep    time.Duration `help:"How long a run that has ended is kept until it is deleted." default:"1m"`
	Every   time.Duration `help:"How often a line is printed." default:"1m"`
}

const (
	// mixedFor is the default duration.
	mixedFor = time.Hour
	// shortest is the shortest sleep.
	shortest = 10 * time.Millisecond
	// leastEvery is the minimum interval: a sample reads the size of every file of the store.
	leastEvery = 100 * time.Millisecond
	// mostSettle is how long memory may grow: the numbers of sleepers and ended runs rise until the first of them go.
	mostSettle = 10 * time.Minute
	// flatWithin is the largest growth after mostSettle that counts as flat, as a ratio.
	flatWithin = 1.10
	// afterwards is when a waiting run gets its signal, or a query, counted from its start.
	afterwards = time.Second
	// deleters is the number of concurrent deletions, each of which waits for the disk.
	deleters = 16
)

// What the runs do, by their numbers: every fifth waits for a signal, every tenth has a child, every twentieth is
// queried while it sleeps if its sleep is long enough.
const (
	everySignal = 5
	everyChild  = 10
	everyQuery  = 20
	mixedSteps  = 2
)

// The payloads: 1.1 KiB on average, which is 200 MB per hour at the default rate.
const (
	smallPayload  = 512
	mediumPayload = 16 << 10
	largePayload  = 300 << 10 // stored as a blob
	everyMedium   = 50
	everyLarge    = 1000
)

// sleepOf returns how long run i sleeps. The sleeps are log-uniform: each factor of ten has as many runs.
func (b *Mixed) sleepOf(i int) time.Duration {
	_, share := math.Modf(float64(i) * math.Phi)
	return time.Duration(float64(shortest) * math.Pow(float64(b.Longest)/float64(shortest), share)).Truncate(time.Millisecond)
}

// payloadOf returns the bytes that run i records.
func payloadOf(i int) int {
	switch {
	case i%everyLarge == everyLarge-1:
		return largePayload
	case i%everyMedium == everyMedium-1:
		return mediumPayload
	}
	return smallPayload
}

// inputOf returns the input of run i.
func (b *Mixed) inputOf(i int) []byte {
	flag := func(every int) int64 {
		if i%every == 0 {
			return 1
		}
		return 0
	}
	return input(b.sleepOf(i).Milliseconds(), int64(payloadOf(i)), mixedSteps, flag(everySignal), flag(everyChild))
}

// check validates the flags.
func (b *Mixed) check() error {
	if b.N != 0 {
		return usagef("bench mixed goes on for a time: give --for, got --n %d", b.N)
	}
	switch {
	case b.Module != "" || b.Guest == Go || b.Guest == TS:
	case b.Guest == Small:
		b.Guest = Go
	default:
		return usagef("bench mixed needs the workflows in Go or TypeScript: give --guest go, --guest ts or --module FILE, "+
			"got --guest %s", b.Guest)
	}
	return errors.Join(b.Common.check(mixedFor, 0), between("rate", b.Rate, 1, maxRate),
		span("longest", b.Longest, shortest, maxFor), span("keep", b.Keep, 0, maxFor), span("every", b.Every, leastEvery, maxFor))
}

// Run runs the measurement.
func (b *Mixed) Run(env *Env) error {
	if err := b.check(); err != nil {
		return err
	}
	_, n, err := b.amount(b.Rate)
	if err != nil {
		return err
	}
	s, err := b.session(env, "mixed", "mixed")
	if err != nil {
		return err
	}
	defer s.end()
	s.notef("%d starts in a second for %v. Each run records a payload, makes %d steps of a handler, sleeps for %v to %v, "+
		"and makes one more; some wait for a signal, have a child, are asked. %v after its end a run is deleted. Lateness is "+
		"from the instant until the step after the sleep begins. Early counts steps before their instant.", b.Rate, b.For,
		mixedSteps, shortest, b.Longest, b.Keep)
	m := &mixture{Mixed: b, s: s}
	if err := m.run(n); err != nil {
		return err
	}
	m.tell()
	return s.show()
}

// mixture is one execution of the benchmark.
type mixture struct {
	*Mixed

	s    *session
	wake wakes

	started, steps, signals, queries, ended, deleted atomic.Int64

	mu    sync.Mutex
	toDie []dead // almost in the order of their ends

	samples []sample // of watch
}

// dead is an ended run.
type dead struct {
	id string
	at time.Time
}

// wakes collects the lateness of wakes.
type wakes struct {
	mu    sync.Mutex
	late  []time.Duration // since the last take
	early int
	all   int
}

func (w *wakes) add(late time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late = append(w.late, late)
	w.all++
	if late < 0 {
		w.early++
	}
}

// take returns the lateness since the last call, and the number of early wakes since the beginning.
func (w *wakes) take() (l Latency, early int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l = latencyOf(w.late)
	w.late = nil
	return l, w.early
}

// run starts n runs at their instants, and samples meanwhile.
func (m *mixture) run(n int) error {
	m.s.onStep(m.step)
	defer m.s.onStep(nil)
	m.s.onEnd(m.end)
	defer m.s.onEnd(nil)
	c := newCrew(m.s.ctx, func(ctx context.Context, _ int) error { return m.bury(ctx) })
	c.add(deleters)
	watching := make(chan struct{})
	watched := make(chan error, 1)
	go func() { watched <- m.watch(watching) }()
	_, err := m.s.pace(m.Rate, n, m.one)
	close(watching)
	return errors.Join(err, <-watched, c.end())
}

// one starts run i. A second later it sends the signal that the run waits for, or a query.
func (m *mixture) one(ctx context.Context, i int, meant time.Time) error {
	id := runID("mixed", i)
	if _, err := m.s.h.StartRaw(ctx, "mixed", m.inputOf(i), host.WithRunID(id)); err != nil {
		return err
	}
	m.started.Add(1)
	signal, query := i%everySignal == 0, i%everyQuery == 1 && m.sleepOf(i) > 10*afterwards
	if !signal && !query {
		return nil
	}
	if err := m.s.sleep(meant.Add(afterwards)); err != nil {
		return err
	}
	if signal {
		m.signals.Add(1)
		return m.s.h.SignalRaw(ctx, id, signalName, nil)
	}
	return m.ask(ctx, id)
}

// ask queries how many steps a run has made. It skips a run that does not sleep yet, since the host is behind.
func (m *mixture) ask(ctx context.Context, id string) error {
	r, err := m.s.h.Get(ctx, id)
	if err != nil || r.Status != host.Sleeping {
		return err
	}
	answer, err := m.s.h.Query(ctx, id, "done", nil)
	if err != nil {
		return err
	}
	m.queries.Add(1)
	if done, err := strconv.Atoi(string(answer)); err != nil || done < 0 || done > mixedSteps {
		return fmt.Errorf("run %s answered %s, want a number of steps up to %d", id, answer, mixedSteps)
	}
	return nil
}

// step takes a call of the handler. The step after a sleep has the sleep's instant as its input.
func (m *mixture) step(in []byte) {
	m.steps.Add(1)
	if due, err := strconv.ParseInt(string(in), 10, 64); err == nil {
		m.wake.add(time.Since(time.UnixMilli(due)))
	}
}

// end takes an ended run.
func (m *mixture) end(r host.Run) {
	m.ended.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.toDie = append(m.toDie, dead{r.ID, r.Ended})
}

// bury deletes the run that ended first, once its time is over.
func (m *mixture) bury(ctx context.Context) error {
	id, wait := m.nextDead(time.Now())
	if id == "" {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return nil
	}
	if err := m.s.h.Delete(ctx, id); err != nil && ctx.Err() == nil {
		return fmt.Errorf("delete %s: %w", id, err)
	}
	m.deleted.Add(1)
	return nil
}

// nextDead takes a run off the queue that may be deleted, or returns how long to wait before the next attempt.
func (m *mixture) nextDead(now time.Time) (id string, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.toDie) == 0 {
		return "", leastEvery
	}
	if left := m.toDie[0].at.Add(m.Keep).Sub(now); left > 0 {
		return "", min(left, time.Second)
	}
	id = m.toDie[0].id
	m.toDie = m.toDie[1:]
	return id, 0
}
