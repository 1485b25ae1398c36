package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/transfer"
)

// Transfer is a store in a database as one side of a copy.
type Transfer struct {
	*Store
	live bool
}

var _ transfer.Store = Transfer{}

// TransferOptions configures OpenTransfer. The zero value is for a source whose data is moved.
type TransferOptions struct {
	// Target creates the schema, or raises it to this release.
	Target bool
	// Live is for a source that is copied while hosts may use it. Such a Transfer changes nothing.
	Live bool
	// Unsafe is as in Options.
	Unsafe bool
}

// OpenTransfer opens the store in the database of a URL, whatever its mark says. Its errors are those of Open. Unless
// opts.Live is set, no other process can open it or write to it from then on.
func OpenTransfer(ctx context.Context, url string, opts TransferOptions) (Transfer, error) {
	s, err := Open(ctx, url, Options{Migrate: opts.Target, Unsafe: opts.Unsafe || opts.Live, transfer: true, live: opts.Live})
	if err != nil {
		return Transfer{}, err
	}
	if !opts.Live {
		if err := s.noRequests(ctx); err != nil {
			return Transfer{}, errors.Join(err, s.Close())
		}
		for p := range store.PartitionID(store.Partitions) { // processes with Options.Shared may own them
			if _, err := s.Acquire(ctx, p, "wfhost store copy", 0); err != nil {
				return Transfer{}, errors.Join(err, s.Close())
			}
		}
	}
	return Transfer{s, opts.Live}, nil
}

// noRequests returns an error if there are requests of transactions: they would be lost, since only a database can take them.
func (s *Store) noRequests(ctx context.Context) error {
	var pending, refused int
	err := s.read(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, `select count(*) filter (where r.refused is null), count(r.refused) from wfhost.request r`).
			Scan(&pending, &refused)
	})
	if err == nil && pending+refused > 0 {
		err = fmt.Errorf("requests of transactions: %d are pending and %d refused; start a server until the pending ones are "+
			"done, and retry or delete the refused ones (wfhost.requests lists them)", pending, refused)
	}
	return err
}

// copiedTables are the tables that Export reads.
var copiedTables = []string{"cell", "chunk", "hook", "inbox", "inbox_seq", "limits", "log", "module", "namespace", "output",
	"partition", "quota", "retention", "run", "schedule", "seal_key", "token", "version", "wake"}

// derivedTables are made anew by Import from the others, ownTables belong to a database and not to the data in it.
var (
	derivedTables = []string{"attribute", "count"}
	ownTables     = []string{"generation", "holder", "member", "meta", "migration", "request", "transfer"}
)

// standing are the copied tables whose rows are always there.
var standing = map[string]bool{"partition": true, "inbox_seq": true}

// readMark reads the mark of a store, nil for none.
func readMark(ctx context.Context, q queryer) (*transfer.Mark, error) {
	var text string
	err := q.QueryRow(ctx, "select mark from wfhost.transfer").Scan(&text)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return transfer.DecodeMark([]byte(text))
}

// Mark implements transfer.Store.
func (t Transfer) Mark(ctx context.Context) (m *transfer.Mark, err error) {
	err = t.read(ctx, func(ctx context.Context) error {
		m, err = readMark(ctx, t.pool)
		return err
	})
	return m, err
}

// errLive is a fault of the caller.
var errLive = errors.New("the store was opened to be copied while it is used")

// SetMark implements transfer.Store.
func (t Transfer) SetMark(ctx context.Context, m *transfer.Mark) error {
	if t.live {
		return errLive
	}
	return t.settle(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "delete from wfhost.transfer")
		if err == nil && m != nil {
			_, err = tx.Exec(ctx, "insert into wfhost.transfer (mark) values ($1)", m.Encode())
		}
		return err
	})
}

// Holds implements transfer.Store.
func (t Transfer) Holds(ctx context.Context) (string, error) {
	for _, table := range copiedTables {
		if standing[table] {
			continue
		}
		var some bool
		err := t.pool.QueryRow(ctx, "select exists (select 1 from wfhost."+table+")").Scan(&some)
		if err != nil || some {
			return "rows in the table wfhost." + table, t.failed(err)
		}
	}
	return "", nil
}

// Clear implements transfer.Store.
func (t Transfer) Clear(ctx context.Context) error {
	for _, table := range append(append([]string{}, copiedTables...), derivedTables...) {
		if standing[table] {
			continue
		}
		err := t.fenced(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "truncate wfhost."+table)
			return err
		})
		if code(err) == "42501" { // the role of a server may have no right to do it
			err = t.fenced(ctx, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "delete from wfhost."+table)
				return err
			})
		}
		if err != nil {
			return t.failed(err)
		}
	}
	return nil
}

// fenced calls f in a transaction that fails if another process has had the store since: a copy that was stopped for long must
// not change what others have completed. Unlike settle, it may take any time.
func (s *Store) fenced(ctx context.Context, f func(tx pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select wfhost.settle($1)", s.mine()); err != nil {
			return err
		}
		return f(tx)
	})
	if code(err) == codeHolder {
		return s.taken(err)
	}
	return err
}

// refuse returns why no host may open the store.
func (s *Store) refuse(ctx context.Context) error {
	m, err := readMark(ctx, s.pool)
	if err != nil {
		return s.failed(err)
	}
	return m.Refuse(s.Place())
}

// known returns store.ErrVersion if a newer release has changed the schema: it may have tables that must be copied, too.
func (s *Store) known(ctx context.Context) error {
	list, err := migrations()
	if err != nil {
		return err
	}
	x, err := readSchema(ctx, s.pool)
	if err == nil && x.newest > len(list) {
		err = fmt.Errorf("%w: its schema has number %d, this release knows %d: copy it with the newer release", store.ErrVersion,
			x.newest, len(list))
	}
	return s.failed(err)
}
