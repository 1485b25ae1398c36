package pebblestore

import (
	"context"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

func hookKey(ns store.NamespaceID, token string) []byte {
	p := store.TokenPartition(ns, token)
	return append(store.AppendPrefix(nil, ns, p, store.TableHook), token...)
}

// Hook returns the holder of a token.
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

// Claim claims or releases a token. The lock of the inboxes serializes claims, which are rare.
func (p *partition) Claim(_ context.Context, c store.HookClaim) (h store.HookHolder, err error) {
	end, err := p.s.beginWrite()
	if err != nil {
		return h, err
	}
	defer end()
	if err := p.lockOwner(); err != nil {
		return h, err
	}
	p.s.inbox.Lock()
	release := func() {
		p.s.inbox.Unlock()
		p.unlockOwner()
	}
	b := p.s.db.NewBatch()
	defer p.s.drop(b)
	h, err = p.claim(b, &c)
	if err != nil {
		release()
		return h, err
	}
	return h, p.s.sync(b, release)
}

// claim fills the batch of a claim. The inboxes are locked.
func (p *partition) claim(b *pebble.Batch, c *store.HookClaim) (store.HookHolder, error) {
	h, held, err := p.s.holder(c.Namespace, c.Token)
	if err != nil {
		return h, err
	}
	switch {
	case c.Release && held && h == c.Holder:
		_ = b.Delete(hookKey(c.Namespace, c.Token), nil)
	case !c.Release && !held:
		h = c.Holder
		_ = b.Set(hookKey(c.Namespace, c.Token), store.AppendHolder(nil, &h), nil)
	}
	_ = b.Delete(inboxKey(p.id, c.Ack), nil)
	if c.Reply != nil {
		cmd, err := c.Reply(h)
		if err != nil {
			return h, err
		}
		if cmd != nil {
			if err := p.s.addCommand(b, *cmd); err != nil {
				return h, err
			}
		}
	}
	return h, nil
}
