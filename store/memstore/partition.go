package memstore

import (
	"context"
	"slices"

	"github.com/wfhost/wfhost/store"
)

type partition struct {
	s     *Store
	id    store.PartitionID
	epoch store.Epoch
}

func (p *partition) ID() store.PartitionID { return p.id }

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

func (p *partition) Due(_ context.Context, after store.WakeKey, until int64, limit int) ([]store.Wake, error) {
	if err := p.lock(); err != nil {
		return nil, err
	}
	defer p.s.d.mu.Unlock()
	var wakes []store.Wake
	add := func(k store.WakeKey, dueUnixMs int64) {
		if k.UnixMs <= until && k.Compare(after) > 0 {
			wakes = append(wakes, store.Wake{Key: k, DueUnixMs: dueUnixMs})
		}
	}
	for key, r := range p.s.d.runs {
		if r.state.WakeUnixMs != store.NoWake && key.Partition() == p.id {
			add(store.WakeKey{UnixMs: max(r.state.WakeUnixMs, 0), Key: key}, r.state.WakeUnixMs)
		}
	}
	for key, dueUnixMs := range p.s.d.wakes[p.id] {
		add(key, dueUnixMs)
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

func (p *partition) Discard(_ context.Context, seqs []store.CommandSeq, answers []store.Command) error {
	if err := p.lock(); err != nil {
		return err
	}
	defer p.s.d.mu.Unlock()
	for i := range answers {
		if err := store.CheckRecord("command", store.AppendCommand(nil, &answers[i])); err != nil {
			return err
		}
	}
	for _, cmd := range answers {
		p.s.d.submit(cmd)
	}
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
	released, taken := c.Release && h == c.Holder, !c.Release && !held
	if taken {
		h = c.Holder
	}
	if c.Reply != nil {
		cmd, err := c.Reply(h)
		if err != nil {
			return h, err
		}
		if cmd != nil {
			d.submit(*cmd)
		}
	}
	switch {
	case released:
		delete(d.hooks, key)
	case taken:
		d.hooks[key] = h
	}
	d.inbox[p.id] = slices.DeleteFunc(d.inbox[p.id], func(cmd store.Command) bool { return cmd.Seq == c.Ack })
	return h, nil
}

func (p *partition) Renew(context.Context) error {
	if err := p.lock(); err != nil {
		return err
	}
	p.s.d.mu.Unlock()
	return nil
}

func (p *partition) Release(context.Context) error {
	p.s.d.mu.Lock()
	defer p.s.d.mu.Unlock()
	if p.s.d.epochs[p.id] == p.epoch {
		p.s.d.owners[p.id] = ""
	}
	return nil
}
