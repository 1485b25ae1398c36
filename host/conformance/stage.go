package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// epoch is the start time of the virtual clock.
var epoch = time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)

// restTime bounds how long a host may take to come to rest, by the machine's clock.
const restTime = 3 * time.Minute

// cacheBytes bounds Options.CacheDir, which programs of a user may share.
const cacheBytes = 512 << 20

// stage is a host that runs stories, one after the other.
type stage struct {
	*host.Host
	clock     *clock.Fake
	workflows []string
	memories  *memories
	stop      context.CancelFunc
	done      chan error
}

// open starts a host with a module. If replayed is set, the host keeps nothing of a waiting guest.
func open(ctx context.Context, wasm []byte, replayed bool, m *memories, cacheDir string) (t *stage, err error) {
	t = &stage{clock: clock.NewFake(epoch), memories: m, done: make(chan error, 1)}
	data := memstore.New()
	data.NowMs = func() int64 { return t.clock.Now().UnixMilli() }
	cfg := host.Config{Store: data.Open(), CacheDir: cacheDir, CacheBytes: cacheBytes, Clock: t.clock, StartLinger: restTime,
		Drain: -1, Events: host.Events{GuestWaits: t.memories.see}}
	if replayed {
		cfg.Linger, cfg.WarmBytes, cfg.ParkBytes, cfg.PoolBytes = -1, -1, -1, -1
	}
	t.Host, err = host.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	t.HandleRawStep("vault", func(context.Context, []byte) ([]byte, error) { return nil, errors.New("nobody may call it") })
	versions, err := t.UploadAll(ctx, "", wasm)
	if errors.Is(err, host.ErrInvalid) { // it lists no workflows, so it has no stories
		versions, err = t.UploadAll(ctx, "stories", wasm)
	}
	if err != nil {
		return nil, errors.Join(err, t.Host.Close())
	}
	for _, v := range versions {
		t.workflows = append(t.workflows, v.Workflow)
	}
	running, stop := context.WithCancel(ctx)
	t.stop = stop
	go func() { t.done <- t.Run(running) }()
	return t, nil
}

func (t *stage) close() error {
	t.stop()
	return errors.Join(<-t.done, t.Host.Close())
}

// tell runs a story and returns its journal and the faults.
func (t *stage) tell(ctx context.Context, s *Story) (journal string, faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	began := t.clock.Now()
	if _, err := t.StartRaw(ctx, s.Workflow, s.input(), host.WithRunID(s.Name)); err != nil {
		return "", []string{fmt.Sprintf("the run cannot be started: %v", err)}
	}
	for i := range s.Do {
		e := &s.Do[i]
		if e.At == atEnd {
			continue
		}
		after, err := e.after()
		if err == nil {
			err = t.advance(ctx, began.Add(after))
		}
		if err == nil {
			err = t.happen(ctx, s, e)
		}
		if err != nil {
			fault("at %s: %v", e.At, err)
		}
	}
	r, err := t.finish(ctx, s.Name)
	if err != nil {
		return "", append(faults, err.Error())
	}
	for i := range s.Do {
		if s.Do[i].At == atEnd {
			if err := t.happen(ctx, s, &s.Do[i]); err != nil {
				fault("at the end: %v", err)
			}
		}
	}
	if r.Status.String() != s.Status {
		fault("the run is %s, and should be %s: %s", r.Status, s.Status, firstOf(r.Error, r.Reason))
	}
	if want := s.Output(); len(want) > 0 && r.Status == host.Completed {
		if got, err := t.ResultRaw(ctx, s.Name); err != nil || !bytes.Equal(got, want) {
			fault("the result is %s %v, and should be %s", quoted(got), errText(err), quoted(want))
		}
	}
	journal, played, err := t.journals(ctx, s.Name)
	if err != nil {
		fault("%v", err)
	} else if d := difference(s.Journal, journal); d != "" {
		fault("%s", d)
	}
	return journal, append(faults, t.again(ctx, played)...)
}

// again replays each run of a story once more, in its newest iteration, and returns faults of the replay and of the
// memory of all iterations.
func (t *stage) again(ctx context.Context, played []iteration) (faults []string) {
	for i, at := range played {
		if next := i + 1; next == len(played) || played[next].run != at.run {
			if err := t.Replay(ctx, at.run); err != nil {
				faults = append(faults, fmt.Sprintf("the replay of the whole journal of run %s: %v", at.run, err))
			}
		}
		if d := t.memories.differences(at); len(d) > 0 {
			faults = append(faults, fmt.Sprintf("the memory of run %s, iteration %d, and of its replay differ, after %v deliveries: the "+
				"workflow has read what is no part of its journal, or a body has changed its memory", at.run, at.n, d))
		}
	}
	return faults
}

// compact returns JSON without white space, and other bytes unchanged.
func compact(b []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, b) != nil {
		return b
	}
	return out.Bytes()
}

func firstOf(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return "(" + err.Error() + ")"
}

// journals formats the journals of all iterations of a run, and of the children that it has started. It returns these
// iterations as played.
func (t *stage) journals(ctx context.Context, id string) (journal string, played []iteration, err error) {
	r, err := t.Get(ctx, id)
	if err != nil {
		return "", nil, err
	}
	var b strings.Builder
	var children []string
	for n := range r.Iteration + 1 {
		fmt.Fprintf(&b, "run %s iteration %d\n", id, n)
		played = append(played, iteration{id, n})
		var entries []store.Entry
		for e, err := range t.JournalOf(ctx, id, n, 0) {
			if err != nil {
				return "", nil, err
			}
			entries = append(entries, e)
			if e.Kind == store.KindChild && e.Refused == 0 {
				children = append(children, string(e.Data))
			}
		}
		b.WriteString(text(entries))
	}
	for _, child := range children {
		switch kid, err := t.Get(ctx, child); {
		case errors.Is(err, host.ErrNotFound), err == nil && kid.Parent != id: // not started: its id was taken, for example
			continue
		}
		more, also, err := t.journals(ctx, child)
		if err != nil {
			return "", nil, err
		}
		b.WriteString(more)
		played = append(played, also...)
	}
	return b.String(), played, nil
}

// advance moves the clock to an instant, from deadline to deadline.
func (t *stage) advance(ctx context.Context, to time.Time) error {
	for {
		next, ok, err := t.settle(ctx)
		if err != nil {
			return err
		}
		if !ok || next.After(to) {
			t.clock.Set(to)
			_, _, err := t.settle(ctx)
			return err
		}
		t.clock.Set(next)
	}
}

// finish moves the clock from deadline to deadline until a run has ended or is stuck.
func (t *stage) finish(ctx context.Context, id string) (host.Run, error) {
	for {
		next, ok, err := t.settle(ctx)
		if err != nil {
			return host.Run{}, err
		}
		r, err := t.Get(ctx, id)
		if err != nil || r.Status.Terminal() || r.Status == host.Stuck {
			return r, err
		}
		if !ok {
			return r, fmt.Errorf("the run is %s and nothing will wake it: %s", r.Status, r.Reason)
		}
		t.clock.Set(next)
	}
}

// settle waits until nothing happens any more at this instant.
func (t *stage) settle(ctx context.Context) (next time.Time, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, restTime)
	defer cancel()
	for {
		next, ok, err := t.WaitIdle(ctx)
		if err != nil {
			return next, ok, fmt.Errorf("the host does not come to rest: %w", err)
		}
		if !ok || next.After(t.clock.Now()) {
			return next, ok, nil
		}
		moment := clock.System().NewTimer(100 * time.Microsecond) // until the host notices what is due
		select {
		case <-moment.C():
		case <-ctx.Done():
			return next, ok, fmt.Errorf("the host does not come to rest: %w", ctx.Err())
		}
	}
}
