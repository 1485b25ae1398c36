package pebblestore

import (
	"context"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/store"
)

// tokens is the TokenStore of a store. A token is looked up by a key made of its hash, so the duration reveals at most
// information about the hash, from which the text cannot be found.
type tokens struct{ s *Store }

// Tokens returns the tokens of callers.
func (s *Store) Tokens() store.TokenStore { return tokens{s} }

func tokenKey(hash []byte) []byte { return store.GlobalKey(0, store.TableToken, hash) }

// Add stores a token.
func (t tokens) Add(_ context.Context, tok store.Token) error {
	record := store.AppendToken(nil, &tok)
	if err := store.CheckRecord("token", record); err != nil {
		return err
	}
	return t.change(tok.Hash, func(b *pebble.Batch, taken bool) error {
		if taken {
			return fmt.Errorf("token: %w", store.ErrExists)
		}
		return b.Set(tokenKey(tok.Hash[:]), record, nil)
	})
}

// Delete removes a token.
func (t tokens) Delete(_ context.Context, hash store.Digest) error {
	return t.change(hash, func(b *pebble.Batch, there bool) error {
		if !there {
			return fmt.Errorf("token: %w", store.ErrNotFound)
		}
		return b.Delete(tokenKey(hash[:]), nil)
	})
}

// change makes one change durable. Until then, Token returns the former value, and All waits.
func (t tokens) change(hash store.Digest, fill func(b *pebble.Batch, there bool) error) error {
	end, err := t.s.beginWrite()
	if err != nil {
		return err
	}
	defer end()
	t.s.tokens.Lock()
	defer t.s.tokens.Unlock()
	v, err := t.s.durable(tokenKey(hash[:]))
	if err != nil {
		return err
	}
	b := t.s.db.NewBatch()
	if err := fill(b, v != nil); err != nil {
		_ = b.Close() // memory only
		return err
	}
	settle := t.s.settling.begin(tokenKey(hash[:]), v)
	if err := t.s.sync(b, nil); err != nil {
		return err // the batch of a failed store may still be in use
	}
	settle()
	return b.Close()
}

// Token reads a durable token. It does not wait for pending changes.
func (t tokens) Token(_ context.Context, hash store.Digest) (store.Token, error) {
	end, err := t.s.begin()
	if err != nil {
		return store.Token{}, err
	}
	defer end()
	v, err := t.s.durable(tokenKey(hash[:]))
	if err != nil {
		return store.Token{}, err
	}
	if v == nil {
		return store.Token{}, fmt.Errorf("token: %w", store.ErrNotFound)
	}
	return store.DecodeToken(v)
}

// All lists the tokens that are durable when it begins.
func (t tokens) All(context.Context) iter.Seq2[store.Token, error] {
	return func(yield func(store.Token, error) bool) {
		list, err := t.list()
		for _, tok := range list {
			if !yield(tok, nil) {
				return
			}
		}
		if err != nil {
			yield(store.Token{}, err)
		}
	}
}

func (t tokens) list() (list []store.Token, err error) {
	end, err := t.s.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	t.s.tokens.RLock()
	defer t.s.tokens.RUnlock()
	prefix := tokenKey(nil)
	err = t.s.scan(prefix, store.PrefixEnd(prefix), func(_, v []byte) (bool, error) {
		tok, err := store.DecodeToken(v)
		list = append(list, tok)
		return true, err
	})
	return list, err
}
