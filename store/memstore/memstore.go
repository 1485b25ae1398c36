// Package memstore is a store in memory: the model that other stores are tested against, and the store of
// unit tests. Data outlives its handles, so that a host can be stopped and started again over it; nothing
// outlives the process.
package memstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/wfhost/wfhost/store"
)

// Data is the contents of a store.
type Data struct {
	mu       sync.Mutex
	epochs   [store.Partitions]store.Epoch
	runs     map[store.RunKey]*run
	inbox    [store.Partitions][]store.Command
	inboxSeq [store.Partitions]store.CommandSeq
	seen     map[store.CommandID]bool
	modules  map[store.Digest]module
	versions []store.Version
	hooks    map[store.RunKey]store.HookHolder // by token
	commits  int
}

type run struct {
	state   store.RunState
	entries map[uint32][]store.Entry
	logs    []store.LogLine
	output  []store.Chunk
}

type module struct {
	wasm []byte
	info store.ModuleInfo
}

// New gives empty data.
func New() *Data {
	return &Data{runs: map[store.RunKey]*run{}, seen: map[store.CommandID]bool{}, modules: map[store.Digest]module{},
		hooks: map[store.RunKey]store.HookHolder{}}
}

// Open gives a store over the data. Several may be open at a time.
func (d *Data) Open() *Store { return &Store{d: d} }

// Commits gives the number of group commits so far.
func (d *Data) Commits() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.commits
}

// Store is a handle of Data.
type Store struct {
	d      *Data
	closed bool
}

var _ store.Store = (*Store)(nil)

// lock takes the data's lock, or says that this handle is closed.
func (s *Store) lock() error {
	s.d.mu.Lock()
	if s.closed {
		s.d.mu.Unlock()
		return store.ErrClosed
	}
	return nil
}

// Close closes the handle.
func (s *Store) Close() error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.closed = true
	return nil
}

// Acquire gives the partition a new epoch.
func (s *Store) Acquire(_ context.Context, p store.PartitionID, _ string, _ time.Duration) (store.Partition, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.d.mu.Unlock()
	s.d.epochs[p]++
	return &partition{s: s, id: p, epoch: s.d.epochs[p]}, nil
}

// Submit puts a command into an inbox.
func (s *Store) Submit(_ context.Context, p store.PartitionID, cmd store.Command) error {
	if err := s.lock(); err != nil {
		return err
	}
	defer s.d.mu.Unlock()
	s.d.submit(p, cmd)
	return nil
}

func (d *Data) submit(p store.PartitionID, cmd store.Command) {
	if d.seen[cmd.ID] {
		return
	}
	d.seen[cmd.ID] = true
	d.inboxSeq[p]++
	cmd.Seq = d.inboxSeq[p]
	d.inbox[p] = append(d.inbox[p], cmd)
}

// State reads a run's state.
func (s *Store) State(_ context.Context, key store.RunKey) (store.RunState, error) {
	if err := s.lock(); err != nil {
		return store.RunState{}, err
	}
	defer s.d.mu.Unlock()
	r := s.d.runs[key]
	if r == nil {
		return store.RunState{}, fmt.Errorf("run %q: %w", key.ID, store.ErrNotFound)
	}
	return r.state, nil
}

// Run reads a run's state and journal.
func (s *Store) Run(_ context.Context, key store.RunKey) (store.RunState, []store.Entry, error) {
	if err := s.lock(); err != nil {
		return store.RunState{}, nil, err
	}
	defer s.d.mu.Unlock()
	r := s.d.runs[key]
	if r == nil {
		return store.RunState{}, nil, fmt.Errorf("run %q: %w", key.ID, store.ErrNotFound)
	}
	return r.state, slices.Clip(r.entries[r.state.Iteration]), nil
}

// Load reads entries.
func (s *Store) Load(_ context.Context, key store.RunKey, iteration uint32, from store.Seq) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		if err := s.lock(); err != nil {
			yield(store.Entry{}, err)
			return
		}
		var entries []store.Entry
		if r := s.d.runs[key]; r != nil {
			entries = r.entries[iteration]
			entries = slices.Clip(entries)
		}
		s.d.mu.Unlock()
		for i := int(from); i < len(entries); i++ {
			if !yield(entries[i], nil) {
				return
			}
		}
	}
}

// Logs reads log lines.
func (s *Store) Logs(_ context.Context, key store.RunKey, from uint64, limit int) ([]store.LogLine, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.d.mu.Unlock()
	r := s.d.runs[key]
	if r == nil || from >= uint64(len(r.logs)) {
		return nil, nil
	}
	lines := r.logs[from:]
	return slices.Clone(lines[:min(limit, len(lines))]), nil
}

// Output reads chunks of output.
func (s *Store) Output(_ context.Context, key store.RunKey, from uint64, limit int) ([]store.Chunk, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.d.mu.Unlock()
	r := s.d.runs[key]
	if r == nil || from >= uint64(len(r.output)) {
		return nil, nil
	}
	chunks := r.output[from:]
	return slices.Clone(chunks[:min(limit, len(chunks))]), nil
}

// Hook gives who holds a token.
func (s *Store) Hook(_ context.Context, ns store.NamespaceID, token string) (store.HookHolder, bool, error) {
	if err := s.lock(); err != nil {
		return store.HookHolder{}, false, err
	}
	defer s.d.mu.Unlock()
	h, ok := s.d.hooks[store.RunKey{Namespace: ns, ID: token}]
	return h, ok, nil
}

// Runs lists runs by falling id.
func (s *Store) Runs(_ context.Context, q store.Query) iter.Seq2[store.RunState, error] {
	return func(yield func(store.RunState, error) bool) {
		if err := s.lock(); err != nil {
			yield(store.RunState{}, err)
			return
		}
		var states []store.RunState
		for _, r := range s.d.runs {
			if q.Matches(&r.state) {
				states = append(states, r.state)
			}
		}
		s.d.mu.Unlock()
		slices.SortFunc(states, func(a, b store.RunState) int { return cmp.Compare(b.Run.ID, a.Run.ID) })
		for i, state := range states {
			if q.Limit > 0 && i == q.Limit || !yield(state, nil) {
				return
			}
		}
	}
}

// Modules gives the module store.
func (s *Store) Modules() store.ModuleStore { return modules{s} }

type partition struct {
	s     *Store
	id    store.PartitionID
	epoch store.Epoch
}

func (p *partition) Epoch() store.Epoch { return p.epoch }

func (p *partition) lock() error {
	if err := p.s.lock(); err != nil {
		return err
	}
	if p.s.d.epochs[p.id] != p.epoch {
		p.s.d.mu.Unlock()
		return store.ErrFenced
	}
	return nil
}

func (p *partition) Commit(_ context.Context, commits []store.RunCommit) error {
	if err := p.lock(); err != nil {
		return err
	}
	defer p.s.d.mu.Unlock()
	for i := range commits {
		if err := p.s.d.check(&commits[i]); err != nil {
			return err
		}
	}
	p.s.d.commits++
	for i := range commits {
		p.s.d.apply(p.id, &commits[i])
	}
	return nil
}

func (d *Data) check(c *store.RunCommit) error {
	r := d.runs[c.Run]
	switch {
	case c.Create && r != nil && !c.Replace:
		return fmt.Errorf("run %q: %w", c.Run.ID, store.ErrExists)
	case c.Create && (c.Expect != 0 || c.Before != nil && c.Before.Expect != 0):
		return fmt.Errorf("run %q: %w: it is new", c.Run.ID, store.ErrConflict)
	case c.Create:
		return nil
	case r == nil:
		return fmt.Errorf("run %q: %w", c.Run.ID, store.ErrNotFound)
	case !c.Delete && len(r.entries[c.State.Iteration]) != int(c.Expect):
		return fmt.Errorf("run %q: %w: it has %d entries, the commit expects %d", c.Run.ID, store.ErrConflict,
			len(r.entries[c.State.Iteration]), c.Expect)
	case c.Before != nil && len(r.entries[c.Before.Iteration]) != int(c.Before.Expect):
		return fmt.Errorf("run %q: %w: iteration %d has %d entries, the commit expects %d", c.Run.ID, store.ErrConflict,
			c.Before.Iteration, len(r.entries[c.Before.Iteration]), c.Before.Expect)
	}
	return nil
}

func (d *Data) apply(p store.PartitionID, c *store.RunCommit) {
	for _, cmd := range c.Outbox {
		d.submit(cmd.To.Partition(), cmd)
	}
	for _, ack := range c.Ack {
		d.inbox[p] = slices.DeleteFunc(d.inbox[p], func(cmd store.Command) bool { return cmd.Seq == ack })
	}
	if c.Delete {
		delete(d.runs, c.Run)
		if c.State.Deleted {
			d.runs[c.Run] = &run{state: c.State, entries: map[uint32][]store.Entry{}}
		}
		return
	}
	if c.Replace {
		delete(d.runs, c.Run)
	}
	r := d.runs[c.Run]
	if r == nil {
		r = &run{entries: map[uint32][]store.Entry{}}
		d.runs[c.Run] = r
	}
	if b := c.Before; b != nil {
		r.entries[b.Iteration] = append(r.entries[b.Iteration], b.Append...)
	}
	it := c.State.Iteration
	r.state = c.State
	r.entries[it] = append(r.entries[it], c.Append...)
	r.logs = append(r.logs, c.Logs...)
	r.output = append(r.output, c.Output...)
}

func (p *partition) Due(_ context.Context, after store.WakeKey, until int64, limit int) ([]store.Wake, error) {
	if err := p.lock(); err != nil {
		return nil, err
	}
	defer p.s.d.mu.Unlock()
	var wakes []store.Wake
	for key, r := range p.s.d.runs {
		k := store.WakeKey{UnixMs: max(r.state.WakeUnixMs, 0), Key: key}
		if r.state.WakeUnixMs != store.NoWake && key.Partition() == p.id && k.UnixMs <= until && k.Compare(after) > 0 {
			wakes = append(wakes, store.Wake{Key: k, DueUnixMs: r.state.WakeUnixMs})
		}
	}
	slices.SortFunc(wakes, func(a, b store.Wake) int { return a.Key.Compare(b.Key) })
	return wakes[:min(limit, len(wakes))], nil
}

func (p *partition) Commands(_ context.Context, after store.CommandSeq, limit int) ([]store.Command, error) {
	if err := p.lock(); err != nil {
		return nil, err
	}
	defer p.s.d.mu.Unlock()
	var cmds []store.Command
	for _, cmd := range p.s.d.inbox[p.id] {
		if cmd.Seq > after && len(cmds) < limit {
			cmds = append(cmds, cmd)
		}
	}
	return cmds, nil
}

func (p *partition) Discard(_ context.Context, seqs []store.CommandSeq) error {
	if err := p.lock(); err != nil {
		return err
	}
	defer p.s.d.mu.Unlock()
	p.s.d.inbox[p.id] = slices.DeleteFunc(p.s.d.inbox[p.id], func(cmd store.Command) bool {
		return slices.Contains(seqs, cmd.Seq)
	})
	return nil
}

func (p *partition) Claim(_ context.Context, c store.HookClaim) (store.HookHolder, error) {
	if err := p.lock(); err != nil {
		return store.HookHolder{}, err
	}
	defer p.s.d.mu.Unlock()
	d, key := p.s.d, store.RunKey{Namespace: c.Namespace, ID: c.Token}
	h, held := d.hooks[key]
	switch {
	case c.Release && h == c.Holder:
		delete(d.hooks, key)
	case !c.Release && !held:
		h = c.Holder
		d.hooks[key] = h
	}
	d.inbox[p.id] = slices.DeleteFunc(d.inbox[p.id], func(cmd store.Command) bool { return cmd.Seq == c.Ack })
	if c.Reply != nil {
		if cmd := c.Reply(h); cmd != nil {
			d.submit(cmd.To.Partition(), *cmd)
		}
	}
	return h, nil
}

func (p *partition) Renew(context.Context) error {
	if err := p.lock(); err != nil {
		return err
	}
	p.s.d.mu.Unlock()
	return nil
}

func (p *partition) Release(context.Context) error { return nil }
