package host_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/internal/clock"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// handlers are the handlers of the workflows in testdata/mixed.
type handlers struct {
	fails atomic.Int64  // how often host/flaky fails before it succeeds
	tries atomic.Int64  // calls of host/flaky
	begun chan struct{} // receives when host/stubborn has begun
	leave chan struct{} // host/stubborn ignores its context until leave is closed
	close func()        // closes leave, once

	mu    sync.Mutex
	notes []string // inputs of host/note
}

func newHandlers(t *testing.T) *handlers {
	n := &handlers{begun: make(chan struct{}, 99), leave: make(chan struct{})}
	n.close = sync.OnceFunc(func() { close(n.leave) })
	t.Cleanup(n.close)
	return n
}

func (n *handlers) register(h *host.Host) {
	host.HandleStep(h, "flaky", func(_ context.Context, text string) (string, error) {
		n.tries.Add(1)
		if n.fails.Add(-1) >= 0 {
			return "", errors.New("out of order")
		}
		return text, nil
	})
	host.HandleStep(h, "stubborn", func(context.Context, string) (string, error) {
		n.begun <- struct{}{}
		<-n.leave
		return "stubborn result", nil
	})
	host.HandleStep(h, "after", func(_ context.Context, text string) (string, error) {
		<-n.begun
		if n.fails.Add(-1) >= 0 {
			return "", errors.New("out of order")
		}
		return text, nil
	})
	host.HandleStep(h, "note", func(_ context.Context, text string) (string, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.notes = append(n.notes, text)
		return text, nil
	})
}

func (n *handlers) noted() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.notes)
}

// mixed is a test host with the workflows of testdata/mixed.
type mixed struct {
	*hosttest.Host
	*handlers
	t *testing.T
}

func newMixed(t *testing.T, opts ...hosttest.Option) *mixed {
	t.Helper()
	f := &mixed{handlers: newHandlers(t), t: t}
	f.Host = hosttest.New(t, append([]hosttest.Option{hosttest.WithHandlers(f.register)}, opts...)...)
	uploadMixed(t, f.Host.Host)
	return f
}

func uploadMixed(t *testing.T, h *host.Host) {
	t.Helper()
	_, err := h.Upload(ctx, "", hosttest.Build(t, "testdata/mixed"), host.AllowStep("*"))
	if err != nil {
		t.Fatal(err)
	}
}

// begin starts a run with the id "r".
func (f *mixed) begin(workflow string, input any, opts ...host.StartOption) {
	f.t.Helper()
	if _, err := f.Start(ctx, workflow, input, append([]host.StartOption{host.WithRunID("r")}, opts...)...); err != nil {
		f.t.Fatal(err)
	}
}

// finish advances the clock until the run has ended, and checks that it completed with a result.
func (f *mixed) finish(id, result string) {
	f.t.Helper()
	f.Finish(id)
	if got, err := host.Result[string](ctx, f.Host.Host, id); err != nil || got != result {
		f.t.Errorf("run %s: got %q, %v, want %q", id, got, err, result)
	}
}

// ends advances the clock until the run ends, and checks its status.
func (f *mixed) ends(id string, status host.Status) {
	f.t.Helper()
	if r := f.Finish(id); r.Status != status {
		f.t.Errorf("run %s is %s (%s), want %s", id, r.Status, r.Reason, status)
	}
}

// is checks the run's status.
func (f *mixed) is(id string, status host.Status) host.Run {
	f.t.Helper()
	r, err := f.Get(ctx, id)
	if err != nil || r.Status != status {
		f.t.Errorf("run %s is %s (%s), %v, want %s", id, r.Status, r.Reason, err, status)
	}
	return r
}

// do checks that an action succeeds.
func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// soon calls f, and fails the test if it does not return within seconds of real time.
func soon(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s does not return", what)
	}
}

// clocked is a host with a custom clock.
type clocked struct {
	*host.Host
	*handlers
	t     *testing.T
	clock *clock.Fake // which the host's clock is made of
}

// newClocked opens a host with the clock c, which shows the time of fake, perhaps with an offset.
func newClocked(t *testing.T, c host.Clock, fake *clock.Fake) *clocked {
	t.Helper()
	k := &clocked{handlers: newHandlers(t), t: t, clock: fake}
	dir := t.TempDir()
	shareCache(t, dir)
	var err error
	k.Host, err = host.Open(ctx, host.Config{Store: memstore.New().Open(), Dir: dir, Clock: c, StartLinger: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	k.register(k.Host)
	own, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(own) }()
	t.Cleanup(func() {
		soon(t, "Close", func() { do(t, k.Close()) })
		stop()
		<-done
	})
	uploadMixed(t, k.Host)
	return k
}

// settle waits until nothing happens any more at this instant.
func (k *clocked) settle() {
	k.t.Helper()
	own, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		next, ok, err := k.WaitIdle(own)
		if err != nil {
			k.t.Fatal("the host does not come to rest")
		}
		if !ok || next.After(k.clock.Now()) {
			return
		}
		select {
		case <-time.After(time.Millisecond): // until the host notices that a deadline has passed
		case <-own.Done():
			k.t.Fatal("what is due does not happen")
		}
	}
}

// pass lets time pass, in steps of a second or more, and settles after each step.
func (k *clocked) pass(d, step time.Duration) {
	k.t.Helper()
	for ; d > 0; d -= step {
		k.settle()
		k.clock.Advance(min(d, step))
	}
	k.settle()
}

// status returns the run's status.
func (k *clocked) status(id string) host.Status {
	k.t.Helper()
	r, err := k.Get(ctx, id)
	if err != nil {
		k.t.Fatal(err)
	}
	return r.Status
}

// faulty is a store with operations that fail on demand.
type faulty struct {
	store.Store
	fail func(op string) error // called before each operation; may be nil
	mu   sync.Mutex
}

// failing has the named operation fail n times, from now on.
func (s *faulty) failing(op string, n int) (left *atomic.Int64) {
	left = &atomic.Int64{}
	left.Store(int64(n))
	s.set(func(o string) error {
		if o == op && left.Add(-1) >= 0 {
			return errors.New(op + ": input/output error")
		}
		return nil
	})
	return left
}

func (s *faulty) set(fail func(op string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

func (s *faulty) check(op string) error {
	s.mu.Lock()
	fail := s.fail
	s.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(op)
}

func (s *faulty) Run(ctx context.Context, run store.RunKey) (store.RunState, []store.Entry, error) {
	if err := s.check("read run"); err != nil {
		return store.RunState{}, nil, err
	}
	return s.Store.Run(ctx, run)
}

func (s *faulty) Modules() store.ModuleStore { return faultyVersions{s.Store.Modules(), s} }

func (s *faulty) Acquire(ctx context.Context, p store.PartitionID, owner string, ttl time.Duration) (store.Partition, error) {
	part, err := s.Store.Acquire(ctx, p, owner, ttl)
	return &faultyPartition{part, s}, err
}

func (s *faulty) Commit(ctx context.Context, groups []store.Group) error {
	if err := s.check("commit"); err != nil {
		return err
	}
	groups = slices.Clone(groups)
	for i := range groups {
		groups[i].Partition = groups[i].Partition.(*faultyPartition).Partition
	}
	return s.Store.Commit(ctx, groups)
}

type faultyVersions struct {
	store.ModuleStore
	s *faulty
}

func (m faultyVersions) Version(ctx context.Context, ns store.NamespaceID, workflow string, n uint32) (store.Version, error) {
	if err := m.s.check("read version of " + workflow); err != nil {
		return store.Version{}, err
	}
	return m.ModuleStore.Version(ctx, ns, workflow, n)
}

type faultyPartition struct {
	store.Partition
	s *faulty
}

func (p *faultyPartition) Due(ctx context.Context, after store.WakeKey, until int64, limit int) ([]store.Wake, error) {
	if err := p.s.check("read index"); err != nil {
		return nil, err
	}
	return p.Partition.Due(ctx, after, until, limit)
}

func (p *faultyPartition) Commands(ctx context.Context, after store.CommandSeq, limit int) ([]store.Command, error) {
	if err := p.s.check("read inbox"); err != nil {
		return nil, err
	}
	return p.Partition.Commands(ctx, after, limit)
}

func (p *faultyPartition) Discard(ctx context.Context, seqs []store.CommandSeq, answers []store.Command) error {
	if err := p.s.check("discard"); err != nil {
		return err
	}
	return p.Partition.Discard(ctx, seqs, answers)
}

func (p *faultyPartition) Claim(ctx context.Context, c store.HookClaim) (store.HookHolder, error) {
	if err := p.s.check("claim"); err != nil {
		return store.HookHolder{}, err
	}
	return p.Partition.Claim(ctx, c)
}
