// Package memstore is a store in memory: the model that other stores are tested against, and the store of
// unit tests. Data outlives its handles, so that a host can be stopped and started again over it; nothing
// outlives the process.
package memstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
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
	return &Data{runs: map[store.RunKey]*run{}, seen: map[store.CommandID]bool{}, modules: map[store.Digest]module{}}
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
	case c.Create && r != nil:
		return fmt.Errorf("run %q: %w", c.Run.ID, store.ErrExists)
	case c.Create:
		return nil
	case r == nil:
		return fmt.Errorf("run %q: %w", c.Run.ID, store.ErrNotFound)
	case !c.Delete && len(r.entries[c.State.Iteration]) != int(c.Expect):
		return fmt.Errorf("run %q: %w: it has %d entries, the commit expects %d", c.Run.ID, store.ErrConflict,
			len(r.entries[c.State.Iteration]), c.Expect)
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
		return
	}
	r := d.runs[c.Run]
	if r == nil {
		r = &run{entries: map[uint32][]store.Entry{}}
		d.runs[c.Run] = r
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
		k := store.WakeKey{UnixMs: max(r.state.WakeUnixMs, 0), Run: key}
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

func (p *partition) Renew(context.Context) error {
	if err := p.lock(); err != nil {
		return err
	}
	p.s.d.mu.Unlock()
	return nil
}

func (p *partition) Release(context.Context) error { return nil }

type modules struct{ s *Store }

func (m modules) Put(_ context.Context, wasm []byte, info store.ModuleInfo) (store.Digest, error) {
	if err := m.s.lock(); err != nil {
		return store.Digest{}, err
	}
	defer m.s.d.mu.Unlock()
	d := store.Digest(sha256.Sum256(wasm))
	m.s.d.modules[d] = module{bytes.Clone(wasm), info}
	return d, nil
}

func (m modules) get(d store.Digest) (module, error) {
	if err := m.s.lock(); err != nil {
		return module{}, err
	}
	defer m.s.d.mu.Unlock()
	mod, ok := m.s.d.modules[d]
	if !ok {
		return mod, fmt.Errorf("module %s: %w", d, store.ErrNotFound)
	}
	return mod, nil
}

func (m modules) Get(_ context.Context, d store.Digest) ([]byte, error) {
	mod, err := m.get(d)
	return mod.wasm, err
}

func (m modules) Info(_ context.Context, d store.Digest) (store.ModuleInfo, error) {
	mod, err := m.get(d)
	return mod.info, err
}

func (m modules) AddVersions(_ context.Context, specs []store.VersionSpec) ([]store.Version, error) {
	if err := m.s.lock(); err != nil {
		return nil, err
	}
	defer m.s.d.mu.Unlock()
	var out []store.Version
	for _, spec := range specs {
		if _, ok := m.s.d.modules[spec.Module]; !ok {
			return nil, fmt.Errorf("module %s: %w", spec.Module, store.ErrNotFound)
		}
	}
	for _, spec := range specs {
		var latest store.Version
		for _, v := range m.s.d.versions {
			if v.Namespace == spec.Namespace && v.Workflow == spec.Workflow {
				latest = v
			}
		}
		next, added := spec.Next(latest)
		if added {
			m.s.d.versions = append(m.s.d.versions, next)
		}
		out = append(out, next)
	}
	return out, nil
}

func (m modules) Version(_ context.Context, ns store.NamespaceID, workflow string, number uint32) (store.Version, error) {
	if err := m.s.lock(); err != nil {
		return store.Version{}, err
	}
	defer m.s.d.mu.Unlock()
	var found store.Version
	for _, v := range m.s.d.versions {
		if v.Namespace == ns && v.Workflow == workflow && (number == 0 || v.Number == number) && !v.Deleted {
			found = v
		}
	}
	if found.Number == 0 {
		return found, fmt.Errorf("workflow %q version %d: %w", workflow, number, store.ErrNotFound)
	}
	return found, nil
}

func (m modules) Versions(_ context.Context, ns store.NamespaceID, workflow string) iter.Seq2[store.Version, error] {
	return func(yield func(store.Version, error) bool) {
		if err := m.s.lock(); err != nil {
			yield(store.Version{}, err)
			return
		}
		versions := slices.DeleteFunc(slices.Clone(m.s.d.versions), func(v store.Version) bool {
			return v.Deleted || v.Namespace != ns || workflow != "" && v.Workflow != workflow
		})
		m.s.d.mu.Unlock()
		slices.SortStableFunc(versions, func(a, b store.Version) int { return cmp.Compare(a.Workflow, b.Workflow) })
		for _, v := range versions {
			if !yield(v, nil) {
				return
			}
		}
	}
}

func (m modules) DeleteVersion(_ context.Context, ns store.NamespaceID, workflow string, number uint32) error {
	if err := m.s.lock(); err != nil {
		return err
	}
	defer m.s.d.mu.Unlock()
	i := slices.IndexFunc(m.s.d.versions, func(v store.Version) bool {
		return !v.Deleted && v.Namespace == ns && v.Workflow == workflow && v.Number == number
	})
	if i < 0 {
		return fmt.Errorf("workflow %q version %d: %w", workflow, number, store.ErrNotFound)
	}
	m.s.d.versions[i].Deleted = true
	d := m.s.d.versions[i].Module
	if !slices.ContainsFunc(m.s.d.versions, func(v store.Version) bool { return !v.Deleted && v.Module == d }) {
		delete(m.s.d.modules, d)
	}
	return nil
}
