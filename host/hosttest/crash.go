package hosttest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/wfhost/wfhost/store"
)

// errKilled is the error of a killed host's store.
var errKilled = fmt.Errorf("%w: the test killed the host", store.ErrFailed)

// crashStore forwards to a store until the host is killed, or until its crash point.
type crashStore struct {
	open func() store.Store

	mu      sync.Mutex
	s       store.Store
	dead    bool
	armed   bool
	left    int
	after   bool
	commits int
}

var _ store.Store = (*crashStore)(nil)

func (c *crashStore) revive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s, c.dead, c.armed = c.open(), false, false
}

func (c *crashStore) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
}

func (c *crashStore) crashed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

func (c *crashStore) arm(n int, after bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed, c.left, c.after = true, n, after
}

func (c *crashStore) inner() (store.Store, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return nil, errKilled
	}
	return c.s, nil
}

// commit makes a commit, unless this is the crash point.
func (c *crashStore) commit(do func() error) error {
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return errKilled
	}
	crash := c.armed && c.left == 0
	c.left--
	c.commits++
	if crash {
		c.dead = true
	}
	after := c.after
	c.mu.Unlock()
	if crash && !after {
		return errKilled
	}
	err := do()
	if crash {
		return errors.Join(errKilled, err)
	}
	return err
}

func (c *crashStore) Acquire(ctx context.Context, p store.PartitionID, owner string, ttl time.Duration) (store.Partition, error) {
	s, err := c.inner()
	if err != nil {
		return nil, err
	}
	part, err := s.Acquire(ctx, p, owner, ttl)
	return &crashPartition{Partition: part, c: c}, err
}

func (c *crashStore) Commit(ctx context.Context, groups []store.Group) error {
	s, err := c.inner()
	if err != nil {
		return err
	}
	groups = slices.Clone(groups)
	for i := range groups {
		if p, ok := groups[i].Partition.(*crashPartition); ok {
			groups[i].Partition = p.Partition
		}
	}
	return c.commit(func() error { return s.Commit(ctx, groups) })
}

func (c *crashStore) Modules() store.ModuleStore {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.s.Modules()
}

func (c *crashStore) Tokens() store.TokenStore {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.s.Tokens()
}

func (c *crashStore) State(ctx context.Context, run store.RunKey) (store.RunState, error) {
	s, err := c.inner()
	if err != nil {
		return store.RunState{}, err
	}
	return s.State(ctx, run)
}

func (c *crashStore) Run(ctx context.Context, run store.RunKey) (store.RunState, []store.Entry, error) {
	s, err := c.inner()
	if err != nil {
		return store.RunState{}, nil, err
	}
	return s.Run(ctx, run)
}

func (c *crashStore) Load(ctx context.Context, run store.RunKey, it uint32, from store.Seq) iter.Seq2[store.Entry, error] {
	s, err := c.inner()
	if err != nil {
		return func(yield func(store.Entry, error) bool) { yield(store.Entry{}, err) }
	}
	return s.Load(ctx, run, it, from)
}

func (c *crashStore) Logs(ctx context.Context, run store.RunKey, from uint64, limit int) ([]store.LogLine, error) {
	s, err := c.inner()
	if err != nil {
		return nil, err
	}
	return s.Logs(ctx, run, from, limit)
}

func (c *crashStore) Output(ctx context.Context, run store.RunKey, from uint64, limit int) ([]store.Chunk, error) {
	s, err := c.inner()
	if err != nil {
		return nil, err
	}
	return s.Output(ctx, run, from, limit)
}

func (c *crashStore) Hook(ctx context.Context, ns store.NamespaceID, token string) (store.HookHolder, bool, error) {
	s, err := c.inner()
	if err != nil {
		return store.HookHolder{}, false, err
	}
	return s.Hook(ctx, ns, token)
}

func (c *crashStore) Namespace(ctx context.Context, name string, create bool) (store.NamespaceID, error) {
	s, err := c.inner()
	if err != nil {
		return 0, err
	}
	return s.Namespace(ctx, name, create)
}

func (c *crashStore) Namespaces(ctx context.Context) iter.Seq2[store.Namespace, error] {
	s, err := c.inner()
	if err != nil {
		return func(yield func(store.Namespace, error) bool) { yield(store.Namespace{}, err) }
	}
	return s.Namespaces(ctx)
}

func (c *crashStore) List(ctx context.Context, q store.Query) (store.Page, error) {
	s, err := c.inner()
	if err != nil {
		return store.Page{}, err
	}
	return s.List(ctx, q)
}

func (c *crashStore) Timers(ctx context.Context, q store.TimerQuery) (store.Page, error) {
	s, err := c.inner()
	if err != nil {
		return store.Page{}, err
	}
	return s.Timers(ctx, q)
}

func (c *crashStore) Counts(ctx context.Context, ns store.NamespaceID) ([]store.Count, error) {
	s, err := c.inner()
	if err != nil {
		return nil, err
	}
	return s.Counts(ctx, ns)
}

func (c *crashStore) Tallies(ctx context.Context) (map[store.NamespaceID]store.Tally, error) {
	s, err := c.inner()
	if err != nil {
		return nil, err
	}
	return s.Tallies(ctx)
}

func (c *crashStore) CountOf(ctx context.Context, ns store.NamespaceID, workflow string, version uint32) (store.Tally, error) {
	s, err := c.inner()
	if err != nil {
		return store.Tally{}, err
	}
	return s.CountOf(ctx, ns, workflow, version)
}

// Measure implements store.Measured if the store does.
func (c *crashStore) Measure() (store.Measures, error) {
	c.mu.Lock()
	s, ok := c.s.(store.Measured)
	c.mu.Unlock()
	if !ok {
		return store.Measures{}, errors.ErrUnsupported
	}
	return s.Measure()
}

// Absent implements store.Remembering if the store does.
func (c *crashStore) Absent(run store.RunKey) bool {
	s, err := c.inner()
	below, ok := s.(store.Remembering)
	return err == nil && ok && below.Absent(run)
}

// Reclaim implements store.Reclaiming if the store does.
func (c *crashStore) Reclaim(ctx context.Context) error {
	inner, err := c.inner()
	if s, ok := inner.(store.Reclaiming); ok {
		return s.Reclaim(ctx)
	}
	return err
}

// Disk implements store.OnDisk if the store does.
func (c *crashStore) Disk() (store.Disk, error) {
	c.mu.Lock()
	s, ok := c.s.(store.OnDisk)
	c.mu.Unlock()
	if !ok {
		return store.Disk{}, errors.ErrUnsupported
	}
	return s.Disk()
}

func (c *crashStore) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.s.Close()
}

type crashPartition struct {
	store.Partition
	c *crashStore
}

func (p *crashPartition) Commit(ctx context.Context, commits []store.RunCommit) error {
	return p.c.commit(func() error { return p.Partition.Commit(ctx, commits) })
}

func (p *crashPartition) Claim(ctx context.Context, c store.HookClaim) (h store.HookHolder, err error) {
	err = p.c.commit(func() error {
		h, err = p.Partition.Claim(ctx, c)
		return err
	})
	return h, err
}

func (p *crashPartition) Discard(ctx context.Context, seqs []store.CommandSeq, answers []store.Command) error {
	return p.c.commit(func() error { return p.Partition.Discard(ctx, seqs, answers) })
}

// Commits returns the number of commits since New. A crash's commits count.
func (h *Host) Commits() int {
	h.crash.mu.Lock()
	defer h.crash.mu.Unlock()
	return h.crash.commits
}

func (c *crashStore) Ended(ctx context.Context, q store.EndedQuery) ([]store.Position, error) {
	s, err := c.inner()
	if err != nil {
		return nil, err
	}
	return s.Ended(ctx, q)
}

func (c *crashStore) SetRetention(ctx context.Context, r store.Retention) error {
	s, err := c.inner()
	if err != nil {
		return err
	}
	return c.commit(func() error { return s.SetRetention(ctx, r) })
}

func (c *crashStore) Retentions(ctx context.Context) ([]store.Retention, error) {
	s, err := c.inner()
	if err != nil {
		return nil, err
	}
	return s.Retentions(ctx)
}

func (c *crashStore) SetQuota(ctx context.Context, q store.Quota) error {
	s, err := c.inner()
	if err != nil {
		return err
	}
	return c.commit(func() error { return s.SetQuota(ctx, q) })
}

func (c *crashStore) Quotas(ctx context.Context) ([]store.Quota, error) {
	s, err := c.inner()
	if err != nil {
		return nil, err
	}
	return s.Quotas(ctx)
}

func (c *crashStore) Used(ctx context.Context, ns store.NamespaceID) (store.Usage, error) {
	s, err := c.inner()
	if err != nil {
		return store.Usage{}, err
	}
	return s.Used(ctx, ns)
}

func (c *crashStore) SealKeys(ctx context.Context) ([]store.SealKey, error) {
	s, err := c.inner()
	if err != nil {
		return nil, err
	}
	return s.SealKeys(ctx)
}

func (c *crashStore) AddSealKey(ctx context.Context, k store.SealKey) error {
	s, err := c.inner()
	if err != nil {
		return err
	}
	return s.AddSealKey(ctx, k)
}

func (c *crashStore) Schedule(ctx context.Context, key store.RunKey) (store.Schedule, error) {
	s, err := c.inner()
	if err != nil {
		return store.Schedule{}, err
	}
	return s.Schedule(ctx, key)
}

func (c *crashStore) Schedules(ctx context.Context, q store.ScheduleQuery) ([]store.Schedule, error) {
	s, err := c.inner()
	if err != nil {
		return nil, err
	}
	return s.Schedules(ctx, q)
}

func (c *crashStore) SetLimits(ctx context.Context, l store.Limits, tell store.Command) error {
	s, err := c.inner()
	if err != nil {
		return err
	}
	return c.commit(func() error { return s.SetLimits(ctx, l, tell) })
}

func (c *crashStore) LimitsOf(ctx context.Context, ns store.NamespaceID, workflow string) (store.Limits, error) {
	s, err := c.inner()
	if err != nil {
		return store.Limits{}, err
	}
	return s.LimitsOf(ctx, ns, workflow)
}

func (c *crashStore) Limits(ctx context.Context, ns store.NamespaceID) ([]store.Limits, error) {
	s, err := c.inner()
	if err != nil {
		return nil, err
	}
	return s.Limits(ctx, ns)
}

func (c *crashStore) Cells(ctx context.Context, q store.CellQuery) ([]store.Cell, error) {
	s, err := c.inner()
	if err != nil {
		return nil, err
	}
	return s.Cells(ctx, q)
}

func (c *crashStore) SetCells(ctx context.Context, x store.QueueSet) error {
	s, err := c.inner()
	if err != nil {
		return err
	}
	return c.commit(func() error { return s.SetCells(ctx, x) })
}
