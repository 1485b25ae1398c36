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
	// NowMs returns the Unix time in milliseconds for the creation of a namespace, and for the leases of members. nil leaves it
	// unknown, and no lease ends. It is set before the first Open.
	NowMs func() int64

	mu       sync.Mutex
	epochs   [store.Partitions]store.Epoch
	owners   [store.Partitions]string
	members  []*membership // by name
	settings uint64        // changes of settings
	runs     map[store.RunKey]*run
	used     map[store.NamespaceID]store.Usage // by runs
	inbox    [store.Partitions][]store.Command
	inboxSeq [store.Partitions]store.CommandSeq
	modules  map[store.Digest]module
	versions []store.Version
	hooks    map[store.RunKey]store.HookHolder         // by token
	wakes    [store.Partitions]map[store.WakeKey]int64 // deadlines of wakes that do not belong to runs
	scratch  []byte
	spaces   []store.Namespace
	spaceIDs map[string]store.NamespaceID
	// retentions, by namespace and workflow; copied on write
	retentions []store.Retention
	quotas     []store.Quota
	tokens     map[store.Digest]store.Token
	keys       []store.SealKey // by id
	schedules  map[store.RunKey]*store.Schedule
	limits     []store.Limits                     // by namespace and workflow
	queues     map[store.RunKey]map[string][]byte // cells by their keys
	commits    int
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

// New returns empty data.
func New() *Data {
	return &Data{runs: map[store.RunKey]*run{}, used: map[store.NamespaceID]store.Usage{},
		modules: map[store.Digest]module{}, spaceIDs: map[string]store.NamespaceID{},
		hooks: map[store.RunKey]store.HookHolder{}, tokens: map[store.Digest]store.Token{},
		schedules: map[store.RunKey]*store.Schedule{}, queues: map[store.RunKey]map[string][]byte{}}
}

// Open returns a store over the data. Several may be open at a time.
func (d *Data) Open() *Store { return &Store{d: d} }

// Commits returns the number of group commits so far.
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

// lock takes the data's lock, or returns ErrClosed if the handle is closed.
func (s *Store) lock() error {
	s.d.mu.Lock()
	if s.closed {
		s.d.mu.Unlock()
		return store.ErrClosed
	}
	return nil
}

// change is lock for a change of settings, which it counts.
func (s *Store) change() error {
	err := s.lock()
	if err == nil {
		s.d.settings++
	}
	return err
}

// Close closes the handle.
func (s *Store) Close() error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.closed = true
	return nil
}

// Acquire gives a partition a new epoch.
func (s *Store) Acquire(_ context.Context, p store.PartitionID, owner string, ttl time.Duration) (store.Partition, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.d.mu.Unlock()
	if by := s.d.owners[p]; ttl > 0 && s.d.live(by, s) {
		return nil, fmt.Errorf("partition %d: %w: %s", p, store.ErrOwned, by)
	}
	s.d.owners[p] = owner
	s.d.epochs[p]++
	return &partition{s: s, id: p, epoch: s.d.epochs[p]}, nil
}

// submit puts a command into the inbox of its receiver.
func (d *Data) submit(cmd store.Command) {
	p := cmd.To.Partition()
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

// Absent implements store.Remembering.
func (s *Store) Absent(run store.RunKey) bool {
	if s.lock() != nil {
		return false
	}
	defer s.d.mu.Unlock()
	return s.d.runs[run] == nil
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
	lines = lines[:min(limit, len(lines))]
	return slices.Clone(lines[:store.Fitting(lines, func(x *store.LogLine) int { return len(x.Text) })]), nil
}

// Output reads chunks of output.
func (s *Store) Output(_ context.Context, key store.RunKey, from uint64, limit int) ([]store.Chunk, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.d.mu.Unlock()
	r := s.d.runs[key]
	if r == nil {
		return nil, nil
	}
	first, _ := slices.BinarySearchFunc(r.output, from, func(c store.Chunk, i uint64) int { return cmp.Compare(c.Index, i) })
	chunks := r.output[first:]
	chunks = chunks[:min(limit, len(chunks))]
	return slices.Clone(chunks[:store.Fitting(chunks, func(x *store.Chunk) int { return len(x.Data) })]), nil
}

// Hook returns the holder of a token.
func (s *Store) Hook(_ context.Context, ns store.NamespaceID, token string) (store.HookHolder, bool, error) {
	if err := s.lock(); err != nil {
		return store.HookHolder{}, false, err
	}
	defer s.d.mu.Unlock()
	h, ok := s.d.hooks[store.RunKey{Namespace: ns, ID: token}]
	return h, ok, nil
}

// Modules returns the module store.
func (s *Store) Modules() store.ModuleStore { return modules{s} }
