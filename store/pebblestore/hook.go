package pebblestore

import (
	"context"

	"github.com/wfhost/wfhost/store"
)

func hookKey(ns store.NamespaceID, token string) []byte {
	p := store.TokenPartition(ns, token)
	return append(store.AppendPrefix(nil, ns, p, store.TableHook), token...)
}

// Hook gives who holds a token.
func (s *Store) Hook(_ context.Context, ns store.NamespaceID, token string) (store.HookHolder, bool, error) {
	end, err := s.begin()
	if err != nil {
		return store.HookHolder{}, false, err
	}
	defer end()
	return s.holder(ns, token)
}

func (s *Store) holder(ns store.NamespaceID, token string) (h store.HookHolder, ok bool, err error) {
	v, err := s.get(hookKey(ns, token))
	if err != nil || v == nil {
		return h, false, err
	}
	h, err = store.DecodeHolder(v)
	return h, err == nil, err
}

// Claim takes or gives up a token. The inbox lock serializes claims: they are rare.
func (p *partition) Claim(_ context.Context, c store.HookClaim) (h store.HookHolder, err error) {
	end, err := p.s.beginWrite()
	if err != nil {
		return h, err
	}
	defer end()
	release, err := p.hold()
	if err != nil {
		return h, err
	}
	defer release()
	p.s.inbox.Lock()
	defer p.s.inbox.Unlock()
	h, held, err := p.s.holder(c.Namespace, c.Token)
	if err != nil {
		return h, err
	}
	b := p.s.db.NewBatch()
	defer func() { _ = b.Close() }() // memory only
	switch {
	case c.Release && held && h == c.Holder:
		_ = b.Delete(hookKey(c.Namespace, c.Token), nil)
	case !c.Release && !held:
		h = c.Holder
		_ = b.Set(hookKey(c.Namespace, c.Token), store.AppendHolder(nil, &h), nil)
	}
	_ = b.Delete(inboxKey(p.id, c.Ack), nil)
	if c.Reply != nil {
		if cmd := c.Reply(h); cmd != nil {
			if err := p.s.addCommand(b, cmd.To.Partition(), *cmd); err != nil {
				return h, err
			}
		}
	}
	return h, p.s.sync(b, nil)
}
