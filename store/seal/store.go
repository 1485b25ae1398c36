package seal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wfhost/wfhost/store"
)

// Options configures New. The zero value is usable.
type Options struct {
	// NowMs returns the Unix time in milliseconds for the first use of a key. nil leaves it unknown.
	NowMs func() int64
}

// Store is a store that seals payloads before it passes them to the embedded store. All other methods are the embedded
// store's.
type Store struct {
	store.Store
	sealer
	nowMs func() int64

	keyStored atomic.Bool // the key is stored
	storing   sync.Mutex
}

var _ store.Store = (*Store)(nil)

// New returns a store that seals payloads with a codec. It writes nothing: the id of the key is stored before the first
// record that is sealed with it. It returns store.ErrKey unless the codec can decode with all keys that the store has
// used.
func New(ctx context.Context, s store.Store, codec Codec, opts Options) (*Store, error) {
	sealed := &Store{Store: s, sealer: sealer{codec: codec, key: codec.Key()}, nowMs: opts.NowMs}
	if err := store.CheckSealKey(&store.SealKey{ID: sealed.key}); err != nil {
		return nil, fmt.Errorf("the newest key of the codec: %w", err)
	}
	known, err := s.SealKeys(ctx)
	if err != nil {
		return nil, err
	}
	for i := range known {
		if err := sealed.check(&known[i]); err != nil {
			return nil, err
		}
	}
	return sealed, nil
}

// Absent implements store.Remembering, if the embedded store does.
func (s *Store) Absent(run store.RunKey) bool {
	below, ok := s.Store.(store.Remembering)
	return ok && below.Absent(run)
}

// checked is the text that is encoded with each key, to recognize the key later.
const checked = "wfhost"

func keyLocation(id string) []byte { return append([]byte{atKey}, id...) }

// check returns store.ErrKey if the codec lacks a key that the store has used, or has another key under its id.
func (s *Store) check(k *store.SealKey) error {
	b, err := s.codec.Decode(k.ID, keyLocation(k.ID), k.Check)
	switch {
	case errors.Is(err, store.ErrKey):
		return err
	case errors.Is(err, store.ErrCorrupt), err == nil && string(b) != checked:
		return fmt.Errorf("%w: with another key %q than the one that was given", store.ErrKey, k.ID)
	case err != nil:
		return fmt.Errorf("%w: the key %q: %w", store.ErrKey, k.ID, err)
	}
	if k.ID == s.key {
		s.keyStored.Store(true)
	}
	return nil
}

// InTheClear returns store.ErrKey if a store has sealed records, which cannot be read without a codec.
func InTheClear(ctx context.Context, s store.Store) error {
	known, err := s.SealKeys(ctx)
	if err != nil || len(known) == 0 {
		return err
	}
	var ids []string
	for _, k := range known {
		ids = append(ids, fmt.Sprintf("%q", k.ID))
	}
	return fmt.Errorf("%w: it needs the keys %s, and none was given", store.ErrKey, ids)
}

// storeKeyID stores the id of the key, once.
func (s *Store) storeKeyID(ctx context.Context) error {
	if s.keyStored.Load() {
		return nil
	}
	s.storing.Lock()
	defer s.storing.Unlock()
	if s.keyStored.Load() {
		return nil
	}
	k := store.SealKey{ID: s.key}
	if s.nowMs != nil {
		k.CreatedUnixMs = s.nowMs()
	}
	var err error
	k.Check, err = s.codec.Encode(nil, keyLocation(s.key), []byte(checked))
	if err != nil {
		return err
	}
	if err := s.Store.AddSealKey(ctx, k); err != nil {
		return err
	}
	s.keyStored.Store(true)
	return nil
}

// Acquire makes the caller the owner of a partition.
func (s *Store) Acquire(ctx context.Context, p store.PartitionID, owner string, ttl time.Duration) (store.Partition, error) {
	below, err := s.Store.Acquire(ctx, p, owner, ttl)
	if err != nil {
		return nil, err
	}
	return &partition{below, s}, nil
}

// Commit seals the records in the groups, and commits them.
func (s *Store) Commit(ctx context.Context, groups []store.Group) error {
	if err := s.storeKeyID(ctx); err != nil {
		return err
	}
	groups = slices.Clone(groups)
	for i := range groups {
		g := &groups[i]
		if p, ok := g.Partition.(*partition); ok && p.s == s {
			g.Partition = p.Partition
		}
		g.Runs = slices.Clone(g.Runs)
		for j := range g.Runs {
			if err := s.commit(&g.Runs[j]); err != nil {
				return &store.RefusedError{Group: i, Run: j, Err: fmt.Errorf("run %q: %w", g.Runs[j].Run.ID, err)}
			}
		}
		g.Queues = slices.Clone(g.Queues)
		for j := range g.Queues {
			var err error
			g.Queues[j].Outbox, err = s.sealCommands(g.Queues[j].Outbox)
			if err != nil {
				return &store.RefusedError{Group: i, Run: -1, Err: fmt.Errorf("queue of workflow %q: %w", g.Queues[j].Queue.ID, err)}
			}
		}
		g.Schedules = slices.Clone(g.Schedules)
		for j := range g.Schedules {
			x := &g.Schedules[j].Schedule
			var err error
			*x, err = s.sealSchedule(x)
			if err != nil {
				return &store.RefusedError{Group: i, Run: -1, Err: fmt.Errorf("schedule %q: %w", x.Key.ID, err)}
			}
		}
	}
	return s.Store.Commit(ctx, groups)
}

// commit seals the records in the commit of one run.
func (s *Store) commit(c *store.RunCommit) (err error) {
	if !c.Delete {
		c.State.Length = c.Expect + store.Seq(len(c.Append)) // as it will be stored
	}
	c.Append, err = s.sealEntries(c.Run, c.State.Iteration, c.Append)
	if err != nil {
		return err
	}
	c.Earlier = slices.Clone(c.Earlier)
	for i := range c.Earlier {
		it := &c.Earlier[i]
		it.Append, err = s.sealEntries(c.Run, it.Iteration, it.Append)
		if err != nil {
			return err
		}
	}
	if c.Before != nil {
		before := *c.Before
		before.Append, err = s.sealEntries(c.Run, before.Iteration, before.Append)
		if err != nil {
			return err
		}
		c.Before = &before
	}
	c.State, err = s.sealState(&c.State)
	if err != nil {
		return err
	}
	c.Logs, err = s.sealLogs(c.Run, c.Logs)
	if err != nil {
		return err
	}
	c.Output, err = s.sealOutput(c.Run, c.Output)
	if err != nil {
		return err
	}
	c.Outbox, err = s.sealCommands(c.Outbox)
	return err
}

// SetLimits seals a command, and sets limits.
func (s *Store) SetLimits(ctx context.Context, l store.Limits, tell store.Command) error {
	if err := s.storeKeyID(ctx); err != nil {
		return err
	}
	sealed, err := s.sealCommand(&tell)
	if err != nil {
		return err
	}
	return s.Store.SetLimits(ctx, l, sealed)
}

// Schedule reads a schedule.
func (s *Store) Schedule(ctx context.Context, key store.RunKey) (store.Schedule, error) {
	x, err := s.Store.Schedule(ctx, key)
	if err == nil {
		err = s.openSchedule(&x)
	}
	if err != nil {
		return store.Schedule{}, err
	}
	return x, nil
}

// Schedules returns a page of schedules.
func (s *Store) Schedules(ctx context.Context, q store.ScheduleQuery) ([]store.Schedule, error) {
	list, err := s.Store.Schedules(ctx, q)
	for i := range list {
		if err == nil {
			err = s.openSchedule(&list[i])
		}
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// State reads one run's state.
func (s *Store) State(ctx context.Context, run store.RunKey) (store.RunState, error) {
	st, err := s.Store.State(ctx, run)
	if err == nil {
		err = s.openState(&st)
	}
	if err != nil {
		return store.RunState{}, err
	}
	return st, nil
}

// Run reads a run's state and journal.
func (s *Store) Run(ctx context.Context, run store.RunKey) (store.RunState, []store.Entry, error) {
	st, entries, err := s.Store.Run(ctx, run)
	if err == nil {
		err = s.openState(&st)
	}
	if err != nil {
		return store.RunState{}, nil, err
	}
	entries = slices.Clone(entries) // the entries may belong to the store below
	for i := range entries {
		if err := s.openEntry(run, st.Iteration, &entries[i]); err != nil {
			return st, nil, fmt.Errorf("journal of run %q: %w", run.ID, err)
		}
	}
	return st, entries, nil
}

// Load reads entries.
func (s *Store) Load(ctx context.Context, run store.RunKey, iteration uint32, from store.Seq) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for e, err := range s.Store.Load(ctx, run, iteration, from) {
			if err == nil {
				err = s.openEntry(run, iteration, &e)
				if err != nil {
					e, err = store.Entry{}, fmt.Errorf("journal of run %q: %w", run.ID, err)
				}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Logs reads log lines.
func (s *Store) Logs(ctx context.Context, run store.RunKey, from uint64, limit int) ([]store.LogLine, error) {
	lines, err := s.Store.Logs(ctx, run, from, limit)
	for i := range lines {
		if err := s.openLog(run, &lines[i]); err != nil {
			return lines[:i], fmt.Errorf("log of run %q: %w", run.ID, err)
		}
	}
	return lines, err
}

// Output reads chunks of output.
func (s *Store) Output(ctx context.Context, run store.RunKey, from uint64, limit int) ([]store.Chunk, error) {
	chunks, err := s.Store.Output(ctx, run, from, limit)
	for i := range chunks {
		if err := s.openChunk(run, &chunks[i]); err != nil {
			return chunks[:i], fmt.Errorf("output of run %q: %w", run.ID, err)
		}
	}
	return chunks, err
}

// List returns a page of runs.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := s.Store.List(ctx, q)
	return s.page(page), err
}

// Timers returns a page of runs that wait for a deadline.
func (s *Store) Timers(ctx context.Context, q store.TimerQuery) (store.Page, error) {
	page, err := s.Store.Timers(ctx, q)
	return s.page(page), err
}

// page decodes the states of a page. A state that does not decode is shown as unreadable.
func (s *Store) page(page store.Page) store.Page {
	for i := range page.Runs {
		st := &page.Runs[i]
		if err := s.openState(st); err != nil {
			*st = store.Unreadable(st.Run, store.Position{UnixMs: st.CreatedUnixMs, ID: st.Run.ID}, err)
		}
	}
	return page
}

// partition is a partition of a Store.
type partition struct {
	store.Partition
	s *Store
}

// Commit is Store.Commit with one group.
func (p *partition) Commit(ctx context.Context, commits []store.RunCommit) error {
	return p.s.Commit(ctx, []store.Group{{Partition: p, Runs: commits}})
}

// Commands lists the inbox. A command that does not decode has Kind 0, as if its record were damaged.
func (p *partition) Commands(ctx context.Context, after store.CommandSeq, limit int) ([]store.Command, error) {
	commands, err := p.Partition.Commands(ctx, after, limit)
	for i := range commands {
		c := &commands[i]
		seq := c.Seq
		if bad := p.s.openCommand(c); errors.Is(bad, store.ErrCorrupt) || errors.Is(bad, store.ErrVersion) {
			*c = store.Command{Seq: seq}
		} else if bad != nil {
			return commands[:i], fmt.Errorf("command %d: %w", seq, bad)
		}
	}
	return commands, err
}

// Discard removes commands from the inbox. The answers are sealed.
func (p *partition) Discard(ctx context.Context, seqs []store.CommandSeq, answers []store.Command) error {
	if len(answers) > 0 {
		if err := p.s.storeKeyID(ctx); err != nil {
			return err
		}
	}
	sealed, err := p.s.sealCommands(answers)
	if err != nil {
		return err
	}
	return p.Partition.Discard(ctx, seqs, sealed)
}

// Claim makes a run the holder of a token. The reply is sealed.
func (p *partition) Claim(ctx context.Context, c store.HookClaim) (store.HookHolder, error) {
	if err := p.s.storeKeyID(ctx); err != nil {
		return store.HookHolder{}, err
	}
	if reply := c.Reply; reply != nil {
		c.Reply = func(h store.HookHolder) (*store.Command, error) {
			cmd, err := reply(h)
			if err != nil || cmd == nil {
				return cmd, err
			}
			sealed, err := p.s.sealCommand(cmd)
			return &sealed, err
		}
	}
	return p.Partition.Claim(ctx, c)
}
