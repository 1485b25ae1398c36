package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/wfhost/wfhost/store"
)

// SQLSTATEs that the functions of the schema raise.
const (
	codeFenced   = "WF001" // detail: the partition
	codeChanged  = "WF003" // detail: index of the run in the arguments, from 1
	codeGone     = "WF004" // detail: index of the run to delete
	codeCell     = "WF005" // detail: index of the compared cell
	codeSchedule = "WF006" // detail: index of the schedule
	codeHolder   = "WF007" // message: the process that has the store open
	codeOwned    = "WF009" // message: the member that owns the partition
	codeExists   = "23505" // unique_violation
)

// code returns the SQLSTATE of an error of the server, "" for other errors.
func code(err error) string {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pe.Code
	}
	return ""
}

// detail returns the number in the detail of an error that a function of the schema has raised.
func detail(err error) int {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		n, _ := strconv.Atoi(pe.Detail) // 0 if it is none
		return n
	}
	return 0
}

// again reports whether a transaction failed because of others that ran at the same time, and has written nothing.
func again(err error) bool {
	switch code(err) {
	case "40001", "40P01": // serialization_failure, deadlock_detected
		return true
	}
	return false
}

// notWritten is an error before the commit of a write was sent.
type notWritten struct{ error }

func (e notWritten) Unwrap() error { return e.error }

// unsent reports whether the server has not got the statement: there was no connection, or it was lost before.
func unsent(err error) bool {
	_, unconnected := errors.AsType[*pgconn.ConnectError](err)
	_, not := errors.AsType[notWritten](err)
	return unconnected || not || pgconn.SafeToRetry(err)
}

// unwritten reports whether an error of a write says that nothing was written: the server has answered, and goes on with the
// session. A session that ends may have ended after its transaction was durable.
func unwritten(err error) bool {
	if unsent(err) {
		return true
	}
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pe.SeverityUnlocalized == "ERROR" && !strings.HasPrefix(pe.Code, "08") && !strings.HasPrefix(pe.Code, "57P")
}

// away reports whether an error says that the server cannot be reached, stops, takes no writes, or has no connection left.
func away(err error) bool {
	switch c := code(err); {
	case c == "25006", strings.HasPrefix(c, "08"), strings.HasPrefix(c, "57P"), strings.HasPrefix(c, "53"): // 25006: read-only
		return true
	case c != "":
		return false
	}
	var network net.Error
	return unsent(err) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, context.DeadlineExceeded)
}

// tellEvery is the shortest time between two calls of Options.Away.
const tellEvery = 10 * time.Second

// tell passes on why the database cannot be reached.
func (s *Store) tell(cause error) {
	last := s.told.Load()
	if s.away == nil || last != nil && elapsed(*last) < tellEvery {
		return
	}
	if now := start(); s.told.CompareAndSwap(last, &now) {
		s.away(cause)
	}
}

// failed returns the error of a read, or of a write that was not made.
func (s *Store) failed(err error) error {
	switch {
	case err == nil:
		return nil
	case s.closed.Load():
		return store.ErrClosed
	case errors.Is(err, store.ErrFailed):
		return err
	case code(err) == "42501":
		return fmt.Errorf("%w: role %q: %w", ErrRights, s.pool.Config().ConnConfig.User, err)
	case code(err) == "40001" || code(err) == "40P01":
		return fmt.Errorf("%w: database: %w, twice", store.ErrUnavailable, err)
	case code(err) == "55P03": // lock_not_available
		return fmt.Errorf("%w: database: commits in flight have not ended: %w", store.ErrUnavailable, err)
	case code(err) == "53100": // disk_full
		return fmt.Errorf("%w: database: %w", store.ErrFull, err)
	case away(err):
		s.tell(err)
		return fmt.Errorf("%w: database: %w", store.ErrUnavailable, err)
	}
	return fmt.Errorf("database: %w", err)
}

// wrote returns the error of a write: store.ErrUnknown unless it is certain that nothing was written.
func (s *Store) wrote(err error) error {
	switch {
	case err == nil:
		return nil
	case code(err) == codeFenced:
		return fmt.Errorf("partition %d: %w", detail(err), store.ErrFenced)
	case code(err) == codeHolder:
		return s.taken(err)
	case unwritten(err), errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrFailed):
		return s.failed(err)
	}
	s.tell(err)
	return fmt.Errorf("%w: database: %w", store.ErrUnknown, err)
}

// taken returns the error of a change of a setting while another process has the store open. A store that has lost its lease
// fails.
func (s *Store) taken(err error) error {
	pe, _ := errors.AsType[*pgconn.PgError](err) // it has a code
	switch {
	case s.lease == nil && s.member.Load() != nil:
		return fmt.Errorf("%w: the membership of this host has ended", store.ErrUnavailable)
	case s.lease == nil:
		return fmt.Errorf("%w: %s", store.ErrLocked, pe.Message)
	}
	s.leaseLost(pe.Message)
	return s.Failure()
}
