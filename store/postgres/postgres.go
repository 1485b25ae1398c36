// Package postgres is the store on PostgreSQL, versions 15 to 17. All state is in the schema wfhost of one database; TABLES.md,
// beside this file, describes its tables.
//
// A commit is one call of a stored function: one round trip, one transaction. PostgreSQL makes a transaction visible only after
// its commit record is durable, on the standbys too that synchronous_standby_names asks for. So whatever this package reads is
// durable, with two exceptions: an operator can end the wait for a standby (pg_cancel_backend), and with synchronous_commit =
// remote_write a crash of the standby's machine loses what it had only in memory. This package never ends the wait: it asks the
// server to cancel nothing.
//
// The package keeps no state in sessions, so it works through pgbouncer in transaction mode.
package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// Options configures Open. The zero value is usable.
type Options struct {
	// Migrate creates the schema, or raises it to this release. Without it, Open returns ErrSchema if that is needed.
	Migrate bool
	// Unsafe opens a database that may lose or damage durable data when it crashes: with fsync, full_page_writes or
	// synchronous_commit off. It is for tests and for data that may be lost.
	Unsafe bool
	// Shared lets other processes have the store open at the same time, if they set it too: each owns the partitions that it
	// has acquired last. See store.Shared for hosts that know of each other. By default, Open returns store.ErrLocked while
	// another process has the store open, or was killed less than 4 seconds ago. With Shared, it returns store.ErrLocked while
	// a process without Shared has the store open.
	Shared bool
	// Away is called with the cause when the database cannot be reached, at most every ten seconds. It must not block. nil: none.
	Away func(cause error)
	// NowMs returns the Unix time in milliseconds for the creation of a namespace. nil leaves it unknown.
	NowMs func() int64

	migrating bool // of Init: it does not matter who has the store open
	transfer  bool // of OpenTransfer: a mark of package transfer does not matter
	live      bool // of OpenTransfer: nor who has the store open
}

// Store is a store in a PostgreSQL database.
type Store struct {
	pool  *pgxpool.Pool
	nowMs func() int64
	away  func(cause error) // nil = none
	told  atomic.Pointer[time.Time]

	// lanes are the rows of table count that no other commit of this process uses at the moment. A commit takes one, so there
	// are no more commits at a time than lanes, and connections are left for reads.
	lanes chan int16

	acquiring [store.Partitions]sync.Mutex

	mu    sync.RWMutex
	owned [store.Partitions]*partition // by the last Acquire of this Store; nil = never acquired, or released
	cache cache

	settings settings

	namespaces sync.Map // name -> store.NamespaceID: namespaces are never deleted, and keep their ids

	unsafe   bool                   // Options.Unsafe
	timeline atomic.Pointer[string] // of the database when it was opened

	lease   *lease                 // nil if Options.Shared
	member  atomic.Pointer[member] // nil until Join
	beats   atomic.Int64           // the newest number of a beat of a membership
	failure atomic.Pointer[error]
	failing chan struct{} // closed after failure is set
	closed  atomic.Bool
}

var (
	_ store.Store       = (*Store)(nil)
	_ store.Remembering = (*Store)(nil)
	_ store.Failing     = (*Store)(nil)
)

// Open connects to the database of a URL or connection string, as libpq and pgx read them. The caller must close the store.
//
// It returns store.ErrVersion if a newer release has changed the schema, ErrSchema if the schema is missing or old and
// Options.Migrate is not set, ErrUnsafe if settings of the server lose data, ErrRights if the role lacks a privilege, and
// store.ErrLocked if another process has the store open.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	s := &Store{nowMs: opts.NowMs, away: opts.Away, unsafe: opts.Unsafe, failing: make(chan struct{})}
	pool, err := connect(ctx, url, s.connected)
	if err != nil {
		return nil, err
	}
	s.pool, s.lanes = pool, make(chan int16, lanesOf(int(pool.Config().MaxConns)))
	base := int(randomToken()[0])
	for i := range cap(s.lanes) {
		s.lanes <- int16((base + i) % maxLanes)
	}
	err = s.prepare(ctx, opts)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}

// maxLanes bounds the lanes of all processes together: the counts have a row for each, and readers add them up.
const maxLanes = 64

// lanesOf returns the number of commits at a time: three quarters of the connections, at least one.
func lanesOf(conns int) int { return min(max(conns*3/4, 1), maxLanes/2) }

// prepare brings the schema up to date, and takes the lease.
func (s *Store) prepare(ctx context.Context, opts Options) error {
	switch err := s.migrate(ctx, opts.Migrate); {
	case err != nil || opts.migrating:
		return err
	case opts.transfer:
		if err := s.known(ctx); err != nil || opts.live {
			return err
		}
		return s.hold(ctx)
	case opts.Shared:
		if err := s.free(ctx); err != nil {
			return err
		}
		return s.refuse(ctx)
	}
	if err := s.hold(ctx); err != nil {
		return err
	}
	if err := s.refuse(ctx); err != nil { // with the lease, so that no copy begins meanwhile
		s.letGo()
		return err
	}
	// Each version has had a row for each status and lane; lists add them up.
	_, err := s.pool.Exec(ctx, "delete from wfhost.count where n = 0")
	return s.failed(err)
}

// Close closes all connections, after the calls in progress have ended. With a server that does not answer, they are given up
// after half a minute.
func (s *Store) Close() error {
	if s.closed.CompareAndSwap(false, true) {
		s.pool.Close()
		s.letGo() // once no call is in flight that another process must not meet
	}
	return nil
}

// Place names the database and its server, without the password.
func (s *Store) Place() string { return place(s.pool.Config().ConnConfig) }

// usable returns store.ErrClosed after Close, and the failure after the store has failed.
func (s *Store) usable() error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	return s.Failure()
}

// Errors of Open, to be tested with errors.Is.
var (
	// ErrSchema: the database has no schema wfhost, or that of an earlier release.
	ErrSchema = errors.New("the database is not prepared")
	// ErrUnsafe: a setting of the server loses durable data.
	ErrUnsafe = errors.New("the database may lose what it has acknowledged")
	// ErrRights: the role lacks a privilege.
	ErrRights = errors.New("the role of the database has no right to do this")
)

// badText is a text that no record of the database can have, since it holds a NUL or is not UTF-8.
func badText(what, text string) error {
	return abi.Errorf(abi.InvalidArgument, "%s %q is not UTF-8 without NUL, as the database wants it", what, text)
}
