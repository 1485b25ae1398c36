package pebblestore

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// kind is the key of the counts: the version of a workflow of a namespace.
type kind struct {
	ns       store.NamespaceID
	workflow string
	version  uint32
}

// tallies holds the counts of runs. On disk are the sizes of the status lists per partition, so that a run that goes to
// work and back to rest changes no count on disk. The busy runs are counted when the store is opened, from the list of
// busy runs, which is short except after a crash with a backlog.
type tallies struct {
	parts [store.Partitions]struct {
		mu     sync.Mutex // held by a commit until its batch is applied, so that the newest counts are the newest on disk
		listed map[kind]*store.Counted
	}
	mu   sync.Mutex
	runs map[kind]*store.Counted              // by actual status, durable
	used map[store.NamespaceID]*store.Counted // sums of runs per namespace
}

// shifts is the change of the counts by one commit.
type shifts struct {
	list   []shift
	locked int // the partitions of list[:locked] are locked
}

type shift struct {
	p      store.PartitionID
	of     kind
	listed store.Counted
	runs   store.Counted
}

// move records the change of a run from old to now. nil means no run.
func (c *shifts) move(run store.RunKey, old, now *record) {
	if old != nil && old.state.Deleted {
		old = nil
	}
	if old != nil && now != nil && old.state.Status == now.state.Status && old.listed == now.listed &&
		old.state.Version == now.state.Version && old.state.Workflow == now.state.Workflow &&
		old.state.UsageBytes() == now.state.UsageBytes() {
		return
	}
	if old != nil {
		c.add(run, old, -1)
	}
	if now != nil {
		c.add(run, now, 1)
	}
}

func (c *shifts) add(run store.RunKey, r *record, n int64) {
	p, of := run.Partition(), kind{run.Namespace, r.state.Workflow, r.state.Version}
	i := slices.IndexFunc(c.list, func(s shift) bool { return s.p == p && s.of == of })
	if i < 0 {
		i = len(c.list)
		c.list = append(c.list, shift{p: p, of: of})
	}
	if r.listed != 0 {
		c.list[i].listed.Add(r.listed, n)
	}
	c.list[i].runs.Add(r.state.Status, n)
	c.list[i].listed.Bytes += n * r.state.UsageBytes()
	c.list[i].runs.Bytes += n * r.state.UsageBytes()
}

// lock adds the changed counts to the batch, and keeps their partitions locked until unlock.
func (t *tallies) lock(b *pebble.Batch, c *shifts) {
	c.list = slices.DeleteFunc(c.list, func(s shift) bool { return s.runs == store.Counted{} && s.listed == store.Counted{} })
	slices.SortFunc(c.list, func(x, y shift) int { return int(x.p) - int(y.p) })
	for i := range c.list {
		s := &c.list[i]
		part := &t.parts[s.p]
		if i == 0 || c.list[i-1].p != s.p {
			part.mu.Lock()
		}
		c.locked++
		if s.listed == (store.Counted{}) {
			continue
		}
		if part.listed == nil {
			part.listed = map[kind]*store.Counted{}
		}
		now := part.listed[s.of]
		if now == nil {
			now = &store.Counted{}
			part.listed[s.of] = now
		}
		now.Sum(&s.listed)
		key := store.CountKey(s.p, s.of.ns, s.of.workflow, s.of.version)
		if *now == (store.Counted{}) {
			delete(part.listed, s.of)
			_ = b.Delete(key, nil)
			continue
		}
		_ = b.Set(key, store.AppendCounted(nil, now), nil)
	}
}

// unlock is called when the batch is applied, or the store has failed. It may be called more than once, also if lock was not
// called.
func (t *tallies) unlock(c *shifts) {
	for i := range c.list[:c.locked] {
		if i == 0 || c.list[i-1].p != c.list[i].p {
			t.parts[c.list[i].p].mu.Unlock()
		}
	}
	c.locked = 0
}

// durable adds a durable commit to the counts.
func (t *tallies) durable(c *shifts) {
	if len(c.list) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range c.list {
		t.add(c.list[i].of, &c.list[i].runs)
	}
}

// add adds to the durable counts. t.mu is held.
func (t *tallies) add(of kind, n *store.Counted) {
	used := t.used[of.ns]
	if used == nil {
		used = &store.Counted{}
		t.used[of.ns] = used
	}
	used.Sum(n)
	now := t.runs[of]
	if now == nil {
		now = &store.Counted{}
		t.runs[of] = now
	}
	if now.Sum(n); *now == (store.Counted{}) {
		delete(t.runs, of)
	}
}

// read loads the stored counts when the store is opened.
func (t *tallies) read(s *Store) error {
	t.runs, t.used = map[kind]*store.Counted{}, map[store.NamespaceID]*store.Counted{}
	for p := range store.PartitionID(store.Partitions) {
		part := &t.parts[p]
		part.listed = map[kind]*store.Counted{}
		prefix := store.AppendPrefix(nil, 0, p, store.TableCount)
		err := s.scan(prefix, store.PrefixEnd(prefix), func(k, v []byte) (bool, error) {
			ns, workflow, version, err := store.ParseCountKey(k)
			if err != nil {
				return false, err
			}
			n, err := store.DecodeCounted(v)
			if err != nil {
				return false, fmt.Errorf("counts of partition %d: %w", p, err)
			}
			of := kind{ns, workflow, version}
			part.listed[of] = &n
			t.add(of, &n)
			return true, nil
		})
		if err != nil {
			return err
		}
		prefix = store.AppendPrefix(nil, 0, p, store.TableBusy)
		err = s.scan(prefix, store.PrefixEnd(prefix), func(k, v []byte) (bool, error) {
			ns, err := store.ParseBusyKey(k)
			if err != nil {
				return false, err
			}
			r, err := store.DecodeBusy(v)
			if err != nil {
				return false, fmt.Errorf("busy run of partition %d: %w", p, err)
			}
			var n store.Counted
			if r.Listed != 0 {
				n.Add(r.Listed, -1)
			}
			n.Add(r.Status, 1)
			t.add(kind{ns, r.Workflow, r.Version}, &n)
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Counts returns the number of runs of each version in a namespace.
func (s *Store) Counts(_ context.Context, ns store.NamespaceID) ([]store.Count, error) {
	end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	var list []store.Count
	t := &s.tallies
	t.mu.Lock()
	for of, n := range t.runs {
		if of.ns == ns {
			list = append(list, store.Count{Workflow: of.workflow, Version: of.version, Runs: n.Tally})
		}
	}
	t.mu.Unlock()
	slices.SortFunc(list, store.CompareCounts)
	return list, nil
}

// Tallies returns the number of runs of each namespace.
func (s *Store) Tallies(context.Context) (map[store.NamespaceID]store.Tally, error) {
	end, err := s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	t := &s.tallies
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[store.NamespaceID]store.Tally, len(t.used))
	for ns, n := range t.used {
		all[ns] = n.Tally
	}
	return all, nil
}

// CountOf returns the number of runs of a version of a workflow.
func (s *Store) CountOf(_ context.Context, ns store.NamespaceID, workflow string, version uint32) (n store.Tally, err error) {
	end, err := s.begin()
	if err != nil {
		return n, err
	}
	defer end()
	t := &s.tallies
	t.mu.Lock()
	defer t.mu.Unlock()
	if runs := t.runs[kind{ns, workflow, version}]; runs != nil {
		n = runs.Tally
	}
	return n, nil
}

// Used returns the usage of a namespace.
func (s *Store) Used(_ context.Context, ns store.NamespaceID) (u store.Usage, err error) {
	end, err := s.begin()
	if err != nil {
		return u, err
	}
	defer end()
	t := &s.tallies
	t.mu.Lock()
	defer t.mu.Unlock()
	if used := t.used[ns]; used != nil {
		u = store.Usage{Runs: used.Live(), Bytes: used.Bytes}
	}
	return u, nil
}
