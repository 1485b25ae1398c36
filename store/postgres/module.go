package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/wfhost/wfhost/store"
)

// modules is the ModuleStore of a Store.
type modules struct{ s *Store }

// Modules returns the store of modules and versions.
func (s *Store) Modules() store.ModuleStore { return modules{s} }

// Put stores a module.
func (m modules) Put(ctx context.Context, wasm []byte, info store.ModuleInfo) (store.Digest, error) {
	d := store.Digest(sha256.Sum256(wasm))
	data := store.AppendModuleInfo(nil, &info)
	if err := store.CheckRecord("module", data); err != nil {
		return d, err
	}
	if wasm == nil {
		wasm = []byte{}
	}
	return d, m.s.wrote(m.s.exec(ctx, `insert into wfhost.module (digest, unused, info, wasm)
		select $1, true, $2, $3 from wfhost.settle($4)
		on conflict (digest) do update set info = excluded.info, unused = true`, d[:], data, wasm, m.s.mine()))
}

func (m modules) read(ctx context.Context, column string, d store.Digest) (b []byte, err error) {
	err = m.s.read(ctx, func(ctx context.Context) error {
		return m.s.pool.QueryRow(ctx, "select "+column+" from wfhost.module where digest = $1", d[:]).Scan(&b)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = fmt.Errorf("module %s: %w", d, store.ErrNotFound)
	}
	return b, err
}

// Get reads a module's bytes.
func (m modules) Get(ctx context.Context, d store.Digest) ([]byte, error) {
	b, err := m.read(ctx, "wasm", d)
	if err == nil && store.Digest(sha256.Sum256(b)) != d {
		return nil, fmt.Errorf("%w: module %s is damaged", store.ErrCorrupt, d)
	}
	return b, err
}

// Info reads a module's info.
func (m modules) Info(ctx context.Context, d store.Digest) (store.ModuleInfo, error) {
	b, err := m.read(ctx, "info", d)
	if err != nil {
		return store.ModuleInfo{}, err
	}
	return store.DecodeModuleInfo(b)
}

// AddVersions adds versions, all or none.
func (m modules) AddVersions(ctx context.Context, specs []store.VersionSpec) (out []store.Version, err error) {
	err = m.s.settle(ctx, func(ctx context.Context, tx pgx.Tx) error {
		out = nil
		for _, spec := range specs {
			if !legal(spec.Workflow) {
				return badText("workflow", spec.Workflow)
			}
			tag, err := tx.Exec(ctx, "update wfhost.module set unused = false where digest = $1", spec.Module[:])
			if err != nil {
				return err
			}
			if tag.RowsAffected() == 0 {
				return fmt.Errorf("module %s: %w", spec.Module, store.ErrNotFound)
			}
		}
		for _, spec := range specs {
			v, err := addVersion(ctx, tx, spec)
			if err != nil {
				return err
			}
			out = append(out, v)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// addVersion adds the version of a spec, unless it is the latest one.
func addVersion(ctx context.Context, tx pgx.Tx, spec store.VersionSpec) (store.Version, error) {
	list, err := decodeAll(ctx, tx, store.DecodeVersion, `select data from wfhost.version where ns = $1 and workflow = $2
		order by number desc limit 1`, int32(spec.Namespace), spec.Workflow)
	if err != nil {
		return store.Version{}, err
	}
	var latest store.Version
	if len(list) > 0 {
		latest = list[0]
	}
	if spec.After != nil {
		var number int64
		err := tx.QueryRow(ctx, `select coalesce(max(number), 0) from wfhost.version where ns = $1 and workflow = $2
			and not imported and not deleted`, int32(spec.Namespace), spec.Workflow).Scan(&number)
		if err == nil {
			err = spec.Check(uint32(number))
		}
		if err != nil {
			return store.Version{}, err
		}
	}
	next, added := spec.Next(latest)
	if !added {
		return next, nil
	}
	data := store.AppendVersion(nil, &next)
	if err := store.CheckRecord("version", data); err != nil {
		return next, err
	}
	// The newest version may have been kept for its number only.
	if _, err := tx.Exec(ctx, "delete from wfhost.version where ns = $1 and workflow = $2 and deleted", int32(next.Namespace),
		next.Workflow); err != nil {
		return next, err
	}
	_, err = tx.Exec(ctx, `insert into wfhost.version (ns, number, imported, deleted, workflow, module, data)
		values ($1, $2, $3, false, $4, $5, $6)`, int32(next.Namespace), int32(next.Number), next.Imported, next.Workflow,
		next.Module[:], data)
	return next, err
}

// one reads one version.
func (m modules) one(ctx context.Context, notFound error, where string, args ...any) (store.Version, error) {
	list, err := readAll(ctx, m.s, store.DecodeVersion, "select data from wfhost.version where not deleted and "+where, args...)
	switch {
	case err != nil:
		return store.Version{}, err
	case len(list) == 0:
		return store.Version{}, notFound
	}
	return list[0], nil
}

// Version reads one version of a workflow.
func (m modules) Version(ctx context.Context, ns store.NamespaceID, workflow string, number uint32) (store.Version, error) {
	none := store.VersionNotFound(workflow, number)
	if err := m.s.usable(); err != nil || !legal(workflow) {
		return store.Version{}, cmp.Or(err, none)
	}
	return recall(m.s, versionKey{int32(ns), workflow, number}, func() (store.Version, error) {
		if number == 0 {
			return m.one(ctx, none, "ns = $1 and workflow = $2 and not imported order by number desc limit 1", int32(ns), workflow)
		}
		return m.one(ctx, none, "ns = $1 and workflow = $2 and number = $3", int32(ns), workflow, int32(number))
	})
}

// Newest returns the newest version of a workflow with a module.
func (m modules) Newest(ctx context.Context, ns store.NamespaceID, workflow string, module store.Digest) (store.Version, error) {
	none := store.NewestNotFound(workflow, module)
	if !legal(workflow) {
		return store.Version{}, none
	}
	return m.one(ctx, none, "ns = $1 and workflow = $2 and module = $3 order by number desc limit 1", int32(ns), workflow, module[:])
}

// Versions lists versions.
func (m modules) Versions(ctx context.Context, ns store.NamespaceID, workflow string) iter.Seq2[store.Version, error] {
	return func(yield func(store.Version, error) bool) {
		var list []store.Version
		err := m.s.usable()
		if err == nil && legal(workflow) {
			list, err = readAll(ctx, m.s, store.DecodeVersion, `select data from wfhost.version where not deleted and ns = $1
				and ($2 = '' or workflow = $2) order by workflow, number`, int32(ns), workflow)
		}
		if err != nil {
			yield(store.Version{}, err)
			return
		}
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// Count returns the number of versions of a namespace.
func (m modules) Count(ctx context.Context, ns store.NamespaceID) (n int64, err error) {
	err = m.s.read(ctx, func(ctx context.Context) error {
		return m.s.pool.QueryRow(ctx, "select count(*) from wfhost.version where not deleted and ns = $1", int32(ns)).Scan(&n)
	})
	return n, err
}

// DeleteVersion deletes a version, and its module if no version has it.
func (m modules) DeleteVersion(ctx context.Context, ns store.NamespaceID, workflow string, number uint32) error {
	if !legal(workflow) {
		return store.VersionNotFound(workflow, number)
	}
	return m.s.settle(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var data []byte
		var newest int32
		err := tx.QueryRow(ctx, `select v.data,
			(select max(w.number) from wfhost.version w where w.ns = v.ns and w.workflow = v.workflow)
			from wfhost.version v where not v.deleted and v.ns = $1 and v.workflow = $2 and v.number = $3`, int32(ns), workflow,
			int32(number)).Scan(&data, &newest)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.VersionNotFound(workflow, number)
		}
		if err != nil {
			return err
		}
		v, err := store.DecodeVersion(data)
		if err != nil {
			return err
		}
		if uint32(newest) > number {
			_, err = tx.Exec(ctx, "delete from wfhost.version where ns = $1 and workflow = $2 and number = $3", int32(ns), workflow,
				int32(number))
		} else { // the next number follows from it
			v.Deleted = true
			_, err = tx.Exec(ctx, "update wfhost.version set deleted = true, data = $4 where ns = $1 and workflow = $2 and number = $3",
				int32(ns), workflow, int32(number), store.AppendVersion(nil, &v))
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `delete from wfhost.module m where m.digest = $1
			and not exists (select 1 from wfhost.version w where w.module = m.digest and not w.deleted)`, v.Module[:])
		return err
	})
}

// Unused returns modules without a version since they were put.
func (m modules) Unused(ctx context.Context, limit int) (list []store.Digest, err error) {
	err = m.s.read(ctx, func(ctx context.Context) error {
		list, err = digests(ctx, m.s.pool, "select digest from wfhost.module where unused order by digest limit $1", max(limit, 0))
		return err
	})
	return list, err
}

func digests(ctx context.Context, q rowsQueryer, sql string, args ...any) (list []store.Digest, err error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	var b []byte
	_, err = pgx.ForEachRow(rows, []any{&b}, func() error {
		if len(b) != len(store.Digest{}) {
			return fmt.Errorf("%w: digest of %d bytes", store.ErrCorrupt, len(b))
		}
		list = append(list, store.Digest(b))
		return nil
	})
	return list, err
}

// DeleteUnused deletes those of some modules that no version has.
func (m modules) DeleteUnused(ctx context.Context, of []store.Digest) (deleted []store.Digest, err error) {
	keys := make([][]byte, len(of))
	for i := range of {
		keys[i] = of[i][:]
	}
	err = m.s.settle(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		deleted, err = digests(ctx, tx, `delete from wfhost.module m where m.digest = any($1)
			and not exists (select 1 from wfhost.version w where w.module = m.digest and not w.deleted) returning m.digest`, keys)
		if err == nil {
			_, err = tx.Exec(ctx, `update wfhost.module m set unused = false where m.digest = any($1) and m.unused
				and exists (select 1 from wfhost.version w where w.module = m.digest and not w.deleted)`, keys)
		}
		return err
	})
	return deleted, err
}
