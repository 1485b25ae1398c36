package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// settle calls f in a transaction, while no other process changes settings, versions or namespaces: f may decide by what it
// reads.
func (s *Store) settle(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	s.settings.forget()
	defer s.settings.forget()
	var own error // of f
	err := s.write(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		own = nil
		tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		if err != nil {
			return notWritten{err}
		}
		defer func() { _ = tx.Rollback(ctx) }() // does nothing after the commit
		_, err = tx.Exec(ctx, "select wfhost.settle($1)", s.mine())
		if err == nil {
			own = f(ctx, tx)
			err = own
		}
		if err != nil {
			return notWritten{err}
		}
		return tx.Commit(ctx)
	})
	if own != nil && code(own) == "" && !away(own) { // f has refused
		return own
	}
	return s.wrote(err)
}

// mine returns what wfhost.settle compares with the lease or the members: null if this process has neither a lease nor a
// membership.
func (s *Store) mine() *[16]byte {
	if s.lease != nil {
		return &s.lease.token
	}
	if m := s.member.Load(); m != nil {
		return &m.token
	}
	return nil
}

// rowsQueryer is a pool or a transaction.
type rowsQueryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// readAll reads and decodes all records of a query.
func readAll[T any](ctx context.Context, s *Store, decode func([]byte) (T, error), sql string, args ...any) (list []T,
	err error) {
	err = s.read(ctx, func(ctx context.Context) error {
		list, err = decodeAll(ctx, s.pool, decode, sql, args...)
		return err
	})
	return list, err
}

// decodeAll reads and decodes all records of a query of a pool or transaction.
func decodeAll[T any](ctx context.Context, q rowsQueryer, decode func([]byte) (T, error), sql string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	blobs, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	var list []T
	for _, b := range blobs {
		x, bad := decode(b)
		if bad != nil {
			return nil, bad
		}
		list = append(list, x)
	}
	return list, err
}

// Namespace returns the id of a namespace.
func (s *Store) Namespace(ctx context.Context, name string, create bool) (id store.NamespaceID, err error) {
	if err := s.usable(); err != nil {
		return 0, err
	}
	if name == store.DefaultNamespace {
		return 0, nil
	}
	if id, ok := s.namespaces.Load(name); ok {
		return id.(store.NamespaceID), nil //nolint:forcetypeassert // it holds nothing else
	}
	bad := abi.CheckNamespace(name)
	if bad == nil {
		err = s.read(ctx, func(ctx context.Context) error {
			var n int32
			err := s.pool.QueryRow(ctx, "select id from wfhost.namespace where name = $1", name).Scan(&n)
			id = store.NamespaceID(n)
			return err
		})
		if err == nil {
			s.namespaces.Store(name, id)
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return id, err
		}
	}
	switch {
	case !create:
		return 0, fmt.Errorf("namespace %q: %w", name, store.ErrNotFound)
	case bad != nil:
		return 0, bad
	}
	return s.createNamespace(ctx, name)
}

func (s *Store) createNamespace(ctx context.Context, name string) (store.NamespaceID, error) {
	var now int64
	if s.nowMs != nil {
		now = s.nowMs()
	}
	var id *int32
	err := s.write(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		return c.QueryRow(ctx, "select wfhost.create_namespace($1, $2, $3, $4)", s.mine(), name, now,
			store.MaxNamespaces).Scan(&id)
	})
	if err != nil {
		return 0, s.wrote(err)
	}
	if id == nil {
		return 0, store.CheckNamespaces(store.MaxNamespaces)
	}
	s.namespaces.Store(name, store.NamespaceID(*id))
	return store.NamespaceID(*id), nil
}

// Namespaces lists the namespaces.
func (s *Store) Namespaces(ctx context.Context) iter.Seq2[store.Namespace, error] {
	return func(yield func(store.Namespace, error) bool) {
		list := []store.Namespace{{Name: store.DefaultNamespace}}
		err := s.read(ctx, func(ctx context.Context) error {
			list = list[:1]
			rows, err := s.pool.Query(ctx, "select id, created, name from wfhost.namespace")
			if err != nil {
				return err
			}
			var id int32
			var created int64
			var name string
			_, err = pgx.ForEachRow(rows, []any{&id, &created, &name}, func() error {
				list = append(list, store.Namespace{ID: store.NamespaceID(id), Name: name, CreatedUnixMs: created})
				return nil
			})
			return err
		})
		if err != nil {
			yield(store.Namespace{}, err)
			return
		}
		slices.SortFunc(list, func(a, b store.Namespace) int { return strings.Compare(a.Name, b.Name) })
		for _, ns := range list {
			if !yield(ns, nil) {
				return
			}
		}
	}
}

// SetRetention sets or removes a retention.
func (s *Store) SetRetention(ctx context.Context, r store.Retention) error {
	return s.settle(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if r.None() {
			_, err := tx.Exec(ctx, "delete from wfhost.retention where ns = $1 and workflow = $2", int32(r.Namespace), r.Workflow)
			return err
		}
		list, err := decodeAll(ctx, tx, store.DecodeRetention, "select data from wfhost.retention")
		if err != nil {
			return err
		}
		if err := store.CheckRetentions(list, &r); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `insert into wfhost.retention (ns, workflow, data) values ($1, $2, $3)
			on conflict (ns, workflow) do update set data = excluded.data`, int32(r.Namespace), r.Workflow, store.AppendRetention(nil, &r))
		return err
	})
}

// Retentions returns all retentions.
func (s *Store) Retentions(ctx context.Context) ([]store.Retention, error) {
	return readAll(ctx, s, store.DecodeRetention, "select data from wfhost.retention order by ns, workflow")
}

// SetQuota sets or removes a quota.
func (s *Store) SetQuota(ctx context.Context, q store.Quota) error {
	return s.settle(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if q.None() {
			_, err := tx.Exec(ctx, "delete from wfhost.quota where ns = $1", int32(q.Namespace))
			return err
		}
		var n int
		if err := tx.QueryRow(ctx, "select count(*) from wfhost.quota where ns <> $1", int32(q.Namespace)).Scan(&n); err != nil {
			return err
		}
		if err := store.CheckQuotas(n); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `insert into wfhost.quota (ns, data) values ($1, $2)
			on conflict (ns) do update set data = excluded.data`, int32(q.Namespace), store.AppendQuota(nil, &q))
		return err
	})
}

// Quotas returns all quotas.
func (s *Store) Quotas(ctx context.Context) ([]store.Quota, error) {
	return readAll(ctx, s, store.DecodeQuota, "select data from wfhost.quota order by ns")
}

// SealKeys returns the keys with which payloads were encoded.
func (s *Store) SealKeys(ctx context.Context) ([]store.SealKey, error) {
	return readAll(ctx, s, store.DecodeKey, "select data from wfhost.seal_key order by id")
}

// AddSealKey stores a key, unless there is one with its id.
func (s *Store) AddSealKey(ctx context.Context, k store.SealKey) error {
	if err := store.CheckSealKey(&k); err != nil {
		return err
	}
	if !legal(k.ID) {
		return badText("id of a key", k.ID)
	}
	return s.wrote(s.exec(ctx, `insert into wfhost.seal_key (id, data) select $1, $2 from wfhost.settle($3)
		on conflict do nothing`, k.ID, store.AppendKey(nil, &k), s.mine()))
}

// tokens is the TokenStore of a Store.
type tokens struct{ s *Store }

// Tokens returns the tokens of callers.
func (s *Store) Tokens() store.TokenStore { return tokens{s} }

// Add stores a token.
func (t tokens) Add(ctx context.Context, tok store.Token) error {
	data := store.AppendToken(nil, &tok)
	if err := store.CheckRecord("token", data); err != nil {
		return err
	}
	err := t.s.exec(ctx, "insert into wfhost.token (hash, data) select $1, $2 from wfhost.settle($3)", tok.Hash[:], data, t.s.mine())
	if code(err) == codeExists {
		return fmt.Errorf("token: %w", store.ErrExists)
	}
	return t.s.wrote(err)
}

// Token reads a token.
func (t tokens) Token(ctx context.Context, hash store.Digest) (store.Token, error) {
	list, err := readAll(ctx, t.s, store.DecodeToken, "select data from wfhost.token where hash = $1", hash[:])
	if err != nil || len(list) == 0 {
		return store.Token{}, fmt.Errorf("token: %w", orNotFound(err))
	}
	return list[0], nil
}

func orNotFound(err error) error {
	if err == nil {
		return store.ErrNotFound
	}
	return err
}

// Delete removes a token.
func (t tokens) Delete(ctx context.Context, hash store.Digest) error {
	return t.s.settle(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "delete from wfhost.token where hash = $1", hash[:])
		if err == nil && tag.RowsAffected() == 0 {
			err = fmt.Errorf("token: %w", store.ErrNotFound)
		}
		return err
	})
}

// All lists the tokens.
func (t tokens) All(ctx context.Context) iter.Seq2[store.Token, error] {
	return func(yield func(store.Token, error) bool) {
		list, err := readAll(ctx, t.s, store.DecodeToken, "select data from wfhost.token order by hash")
		if err != nil {
			yield(store.Token{}, err)
			return
		}
		for _, tok := range list {
			if !yield(tok, nil) {
				return
			}
		}
	}
}
