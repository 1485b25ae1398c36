package memstore

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// tokens is the TokenStore of a handle.
type tokens struct{ s *Store }

// Tokens returns the tokens of callers.
func (s *Store) Tokens() store.TokenStore { return tokens{s} }

// Add stores a token.
func (t tokens) Add(_ context.Context, tok store.Token) error {
	if err := t.s.change(); err != nil {
		return err
	}
	defer t.s.d.mu.Unlock()
	if err := store.CheckRecord("token", store.AppendToken(nil, &tok)); err != nil {
		return err
	}
	if _, taken := t.s.d.tokens[tok.Hash]; taken {
		return fmt.Errorf("token: %w", store.ErrExists)
	}
	tok.Scopes = slices.Clone(tok.Scopes)
	t.s.d.tokens[tok.Hash] = tok
	return nil
}

// Token reads a token.
func (t tokens) Token(_ context.Context, hash store.Digest) (store.Token, error) {
	if err := t.s.lock(); err != nil {
		return store.Token{}, err
	}
	defer t.s.d.mu.Unlock()
	tok, ok := t.s.d.tokens[hash]
	if !ok {
		return store.Token{}, fmt.Errorf("token: %w", store.ErrNotFound)
	}
	tok.Scopes = slices.Clone(tok.Scopes)
	return tok, nil
}

// Delete removes a token.
func (t tokens) Delete(_ context.Context, hash store.Digest) error {
	if err := t.s.change(); err != nil {
		return err
	}
	defer t.s.d.mu.Unlock()
	if _, ok := t.s.d.tokens[hash]; !ok {
		return fmt.Errorf("token: %w", store.ErrNotFound)
	}
	delete(t.s.d.tokens, hash)
	return nil
}

// All lists the tokens.
func (t tokens) All(context.Context) iter.Seq2[store.Token, error] {
	return func(yield func(store.Token, error) bool) {
		if err := t.s.lock(); err != nil {
			yield(store.Token{}, err)
			return
		}
		var list []store.Token
		for _, tok := range t.s.d.tokens {
			tok.Scopes = slices.Clone(tok.Scopes)
			list = append(list, tok)
		}
		t.s.d.mu.Unlock()
		slices.SortFunc(list, func(a, b store.Token) int { return bytes.Compare(a.Hash[:], b.Hash[:]) })
		for _, tok := range list {
			if !yield(tok, nil) {
				return
			}
		}
	}
}
