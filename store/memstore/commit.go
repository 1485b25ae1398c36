package memstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/wfhost/wfhost/store"
)

var errForeign = errors.New("the partition was not acquired from this store")

// Commit makes the changes of all groups, or none.
func (s *Store) Commit(_ context.Context, groups []store.Group) error {
	if err := s.lock(); err != nil {
		return err
	}
	defer s.d.mu.Unlock()
	if err := store.CheckGroups(groups); err != nil {
		return err
	}
	for i := range groups {
		if err := s.owned(groups[i].Partition); err != nil {
			return &store.RefusedError{Group: i, Run: -1, Err: err}
		}
	}
	for i := range groups {
		for j := range groups[i].Runs {
			if err := s.d.check(&groups[i].Runs[j]); err != nil {
				return &store.RefusedError{Group: i, Run: j, Err: fmt.Errorf("run %q: %w", groups[i].Runs[j].Run.ID, err)}
			}
		}
	}
	for i := range groups {
		for j := range groups[i].Schedules {
			if err := groups[i].Schedules[j].Check(s.d.schedules[groups[i].Schedules[j].Schedule.Key]); err != nil {
				return &store.RefusedError{Group: i, Run: -1, Err: err}
			}
		}
	}
	for i := range groups {
		for j := range groups[i].Queues {
			x := &groups[i].Queues[j]
			if err := x.Check(s.d.queues[x.Queue][string(x.Before.Key)]); err != nil {
				return &store.RefusedError{Group: i, Run: -1, Err: err}
			}
		}
	}
	s.d.commits++
	for i := range groups {
		p := groups[i].Partition.ID()
		for j := range groups[i].Runs {
			s.d.apply(p, &groups[i].Runs[j])
		}
		for j := range groups[i].Schedules {
			s.d.setSchedule(p, &groups[i].Schedules[j])
		}
		for j := range groups[i].Queues {
			s.d.setQueue(p, &groups[i].Queues[j])
		}
		for j := range groups[i].Wakes {
			s.d.setWake(p, &groups[i].Wakes[j])
		}
	}
	return nil
}

func (p *partition) Commit(ctx context.Context, runs []store.RunCommit) error {
	return p.s.Commit(ctx, []store.Group{{Partition: p, Runs: runs}})
}

func (s *Store) owned(part store.Partition) error {
	p, ok := part.(*partition)
	switch {
	case !ok || p.s != s:
		return errForeign
	case s.d.epochs[p.id] != p.epoch:
		return fmt.Errorf("partition %d: %w", p.id, store.ErrFenced)
	}
	return nil
}

func (d *Data) check(c *store.RunCommit) error {
	r := d.runs[c.Run]
	switch {
	case c.Create && r != nil && !c.Replace:
		return store.ErrExists
	case c.Create && (c.Expect != 0 || c.Before != nil && c.Before.Expect != 0):
		return fmt.Errorf("%w: it is new", store.ErrConflict)
	case !c.Create && r == nil:
		return store.ErrNotFound
	case c.Delete:
		return d.checkSizes(c)
	}
	length, before := 0, 0
	if !c.Create {
		length = len(r.entries[c.State.Iteration])
		if c.Before != nil {
			before = len(r.entries[c.Before.Iteration])
		}
	}
	for i := range c.Earlier {
		if err := checkEntries(0, 0, c.Earlier[i].Append); err != nil {
			return fmt.Errorf("iteration %d: %w", c.Earlier[i].Iteration, err)
		}
	}
	if c.Before != nil {
		if err := checkEntries(before, c.Before.Expect, c.Before.Append); err != nil {
			return fmt.Errorf("iteration %d: %w", c.Before.Iteration, err)
		}
	}
	if err := checkEntries(length, c.Expect, c.Append); err != nil {
		return err
	}
	return d.checkSizes(c)
}

func checkEntries(length int, expect store.Seq, entries []store.Entry) error {
	if length != int(expect) {
		return fmt.Errorf("%w: it has %d entries, the commit expects %d", store.ErrConflict, length, expect)
	}
	for i := range entries {
		if want := expect + store.Seq(i); entries[i].Seq != want {
			return fmt.Errorf("%w: entry %d where %d belongs", store.ErrConflict, entries[i].Seq, want)
		}
	}
	return nil
}

// checkSizes refuses records that could not be decoded. Payloads count as stored beside their entry.
func (d *Data) checkSizes(c *store.RunCommit) error {
	var err error
	check := func(what string, record []byte) {
		d.scratch = record[:0]
		if err == nil {
			err = store.CheckRecord(what, record)
		}
	}
	entries := func(list []store.Entry) {
		for _, e := range list {
			e.Input, e.Data = nil, nil
			check("entry", store.AppendEntry(d.scratch, &e))
		}
	}
	for i := range c.Earlier {
		entries(c.Earlier[i].Append)
	}
	if c.Before != nil {
		entries(c.Before.Append)
	}
	entries(c.Append)
	check("run state", store.AppendState(d.scratch, &c.State))
	for i := range c.Logs {
		check("log line", store.AppendLogLine(d.scratch, &c.Logs[i]))
	}
	for i := range c.Output {
		check("output", store.AppendChunk(d.scratch, &c.Output[i]))
	}
	for i := range c.Outbox {
		check("command", store.AppendCommand(d.scratch, &c.Outbox[i]))
	}
	return err
}

func (d *Data) apply(p store.PartitionID, c *store.RunCommit) {
	for _, cmd := range c.Outbox {
		d.submit(cmd)
	}
	for _, ack := range c.Ack {
		d.inbox[p] = slices.DeleteFunc(d.inbox[p], func(cmd store.Command) bool { return cmd.Seq == ack })
	}
	d.count(c.Run, -1)
	defer d.count(c.Run, 1)
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
	for i := range c.Earlier {
		r.entries[c.Earlier[i].Iteration] = slices.Clone(c.Earlier[i].Append)
	}
	first := r.entries[0][:min(1, len(r.entries[0]))]
	if b := c.Before; b != nil {
		r.entries[b.Iteration] = append(r.entries[b.Iteration], b.Append...)
	}
	for it := r.state.Kept; it < c.State.Kept && !c.Create; it++ {
		if delete(r.entries, it); it == 0 {
			r.entries[0] = first
		}
	}
	it := c.State.Iteration
	r.state = c.State
	r.entries[it] = append(r.entries[it], c.Append...)
	r.state.Length = store.Seq(len(r.entries[it]))
	r.logs = append(r.logs, c.Logs...)
	r.output = append(r.output, c.Output...)
}

func (d *Data) setWake(p store.PartitionID, w *store.WakeSet) {
	if d.wakes[p] == nil {
		d.wakes[p] = map[store.WakeKey]int64{}
	}
	if w.OldUnixMs != store.NoWake {
		delete(d.wakes[p], store.WakeKey{UnixMs: max(w.OldUnixMs, 0), Kind: w.Kind, Key: w.Key})
	}
	if w.UnixMs != store.NoWake {
		d.wakes[p][store.WakeKey{UnixMs: max(w.UnixMs, 0), Kind: w.Kind, Key: w.Key}] = w.UnixMs
	}
}
