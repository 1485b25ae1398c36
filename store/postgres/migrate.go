package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/wfhost/wfhost/store"
)

// files are the migrations: NNN-what.sql, numbered without gaps from 001. They only add: a release that knows fewer of them
// goes on working, unless one raises meta.oldest.
//
//go:embed migrations/*.sql
var files embed.FS

// lockMigrations is the class of an advisory lock. The functions of the schema have the others.
const lockMigrations = 7763004

type migration struct {
	number    int
	name, sql string
}

// migrations returns the embedded migrations in their order.
func migrations() ([]migration, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	list := make([]migration, 0, len(names))
	for i, name := range names {
		b, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		digits, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "-")
		if n, err := strconv.Atoi(digits); err != nil || n != i+1 {
			return nil, fmt.Errorf("migration %s has the place %d", name, i+1)
		}
		list = append(list, migration{i + 1, strings.TrimPrefix(name, "migrations/"), string(b)})
	}
	return list, nil
}

// Script returns the SQL that creates the schema from nothing, for people who run it themselves.
func Script() (string, error) {
	list, err := migrations()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("begin;\n" + registry + ";\n")
	for _, m := range list {
		fmt.Fprintf(&b, "\n%s\ninsert into wfhost.migration (number, name) values (%d, '%s');\n", m.sql, m.number, m.name)
	}
	b.WriteString("commit;\n")
	return b.String(), nil
}

// registry creates the schema and the list of its migrations.
const registry = `create schema if not exists wfhost;
create table if not exists wfhost.migration (
  number integer primary key,
  name text not null,
  at timestamptz not null default now()
)`

// schema is what is known of the schema before the store uses it.
type schema struct {
	there  bool
	newest int // its newest migration
	oldest int // the lowest newest migration that a release may know
}

func readSchema(ctx context.Context, q queryer) (x schema, err error) {
	// The catalog shows what another process has just created; to_regclass may not.
	err = q.QueryRow(ctx, `select count(*) = 2 from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
		where n.nspname = 'wfhost' and c.relname in ('migration', 'meta')`).Scan(&x.there)
	if err != nil || !x.there {
		return x, err
	}
	err = q.QueryRow(ctx, `select coalesce((select max(number) from wfhost.migration), 0),
		coalesce((select value from wfhost.meta where name = 'oldest'), 0)`).Scan(&x.newest, &x.oldest)
	return x, err
}

// queryer is a pool or a transaction.
type queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// migrate checks the schema, and applies what is missing if it may.
func (s *Store) migrate(ctx context.Context, may bool) error {
	list, err := migrations()
	if err != nil {
		return err
	}
	x, err := readSchema(ctx, s.pool)
	if err != nil {
		return s.failed(err)
	}
	if x.oldest > len(list) {
		return fmt.Errorf("%w: its schema has number %d and needs a release that knows number %d, this one knows %d: "+
			"use the newer release", store.ErrVersion, x.newest, x.oldest, len(list))
	}
	switch {
	case x.newest >= len(list):
		return nil
	case !may && !x.there:
		return fmt.Errorf("%w: %s has no schema wfhost; run `wfhost store init`", ErrSchema, place(s.pool.Config().ConnConfig))
	case !may:
		return fmt.Errorf("%w: its schema has number %d, this release needs %d; run `wfhost store init`", ErrSchema, x.newest,
			len(list))
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return apply(ctx, tx, list) })
	switch code(err) {
	case "42501":
		return fmt.Errorf("%w: role %q may not create or change the schema wfhost; let the database's owner run `wfhost store init`, "+
			"or `grant create on database %s to %s`: %w", ErrRights, s.pool.Config().ConnConfig.User,
			pgx.Identifier{s.pool.Config().ConnConfig.Database}.Sanitize(),
			pgx.Identifier{s.pool.Config().ConnConfig.User}.Sanitize(), err)
	}
	return s.failed(err)
}

// apply applies the missing migrations in one transaction, one process at a time.
func apply(ctx context.Context, tx pgx.Tx, list []migration) error {
	if _, err := tx.Exec(ctx, `select set_config('idle_in_transaction_session_timeout', '5s', true),
		pg_advisory_xact_lock($1, 0)`, lockMigrations); err != nil {
		return err
	}
	x, err := readSchema(ctx, tx)
	if err != nil {
		return err
	}
	if !x.there {
		if _, err := tx.Exec(ctx, registry, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	for _, m := range list[min(x.newest, len(list)):] {
		if _, err := tx.Exec(ctx, m.sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("migration %s: %w", m.name, err)
		}
		if _, err := tx.Exec(ctx, "insert into wfhost.migration (number, name) values ($1, $2)", m.number, m.name); err != nil {
			return err
		}
	}
	return nil
}
