package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/wfhost/wfhost/store"
)

// readTimeout bounds a read, and an Acquire: the server ends its wait for commits in flight before, see wfhost.acquire.
const readTimeout = 20 * time.Second

// read calls f, which reads, and once more if the connection was lost before the server had the statement or other transactions
// were in the way. f must begin anew when it is called again. pgx.ErrNoRows and errors of the functions of the schema are
// returned as they are.
func (s *Store) read(ctx context.Context, f func(context.Context) error) error {
	if err := s.usable(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err := f(ctx)
	if again(err) || pgconn.SafeToRetry(err) {
		err = f(ctx)
	}
	switch {
	case err == nil, errors.Is(err, pgx.ErrNoRows), code(err) == codeFenced, errors.Is(err, store.ErrCorrupt),
		errors.Is(err, store.ErrVersion):
		return err
	}
	return s.failed(err)
}

// noRun is the error of a run that does not exist. Each start looks for one, so the text is built only when it is read.
type noRun string

func (id noRun) Error() string { return fmt.Sprintf("run %q: %v", string(id), store.ErrNotFound) }

func (noRun) Unwrap() error { return store.ErrNotFound }

// Absent implements store.Remembering, for runs of partitions that this store owns, while no other process has it open.
func (s *Store) Absent(run store.RunKey) bool {
	return s.usable() == nil && s.leased() && s.cache.get(run) == absent
}

// State reads a run's state: from memory if this store owns its partition and has it, and no other process has the
// store open.
func (s *Store) State(ctx context.Context, run store.RunKey) (store.RunState, error) {
	if err := s.usable(); err != nil {
		return store.RunState{}, err
	}
	if !legal(run.ID) {
		return store.RunState{}, noRun(run.ID)
	}
	var r *record
	if s.leased() {
		r = s.cache.get(run)
	}
	if r == nil {
		begun := s.cache.begin(run)
		err := s.read(ctx, func(ctx context.Context) (err error) {
			r, err = scanRecord(s.pool.QueryRow(ctx, `select rev, tail_first, listed, octet_length(tail), state from wfhost.run
				where ns = $1 and id = $2`, int32(run.Namespace), run.ID))
			return err
		})
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			r = absent
		case err != nil:
			return store.RunState{}, fmt.Errorf("run %q: %w", run.ID, err)
		}
		s.remember(run, r, begun)
	}
	if r == absent {
		return store.RunState{}, noRun(run.ID)
	}
	return r.state, nil
}

// runSQL reads a run and its journal as of one instant: first the run, as the chunk -1, then the chunks of its iteration.
const runSQL = `select -1::bigint as first, r.rev, r.tail_first, r.listed, r.state, r.tail from wfhost.run r
	where r.ns = $1 and r.id = $2
	union all
	select c.first, 0, 0, null, null, c.data from wfhost.chunk c where c.ns = $1 and c.id = $2
		and c.iteration = (select iteration from wfhost.run r where r.ns = $1 and r.id = $2 and not r.deleted)
	order by first`

// Run reads a run's state and journal.
func (s *Store) Run(ctx context.Context, run store.RunKey) (st store.RunState, list []store.Entry, err error) {
	if err := s.usable(); err != nil {
		return st, nil, err
	}
	if !legal(run.ID) {
		return st, nil, noRun(run.ID)
	}
	begun := s.cache.begin(run)
	var r *record
	err = s.read(ctx, func(ctx context.Context) error {
		r, list = nil, nil
		rows, err := s.pool.Query(ctx, runSQL, int32(run.Namespace), run.ID)
		if err != nil {
			return err
		}
		defer rows.Close()
		r, list, err = scanRun(rows)
		return err
	})
	switch {
	case err != nil:
		return st, nil, fmt.Errorf("journal of run %q: %w", run.ID, err)
	case r == nil:
		s.remember(run, absent, begun)
		return st, nil, noRun(run.ID)
	}
	s.remember(run, r, begun)
	if r.state.Deleted {
		return r.state, nil, nil
	}
	if store.Seq(len(list)) != r.state.Length {
		return r.state, nil, fmt.Errorf("journal of run %q: %w: it has %d entries, the state says %d", run.ID, store.ErrCorrupt,
			len(list), r.state.Length)
	}
	return r.state, list, nil
}

// scanRun reads the rows of runSQL.
func scanRun(rows pgx.Rows) (*record, []store.Entry, error) {
	var r *record
	var tail []byte
	l := loader{}
	for rows.Next() {
		var first, tailFirst int64
		var rev int64
		var listed *int16
		var state, data []byte
		if err := rows.Scan(&first, &rev, &tailFirst, &listed, &state, &data); err != nil {
			return nil, nil, err
		}
		if first >= 0 {
			if err := l.decode(store.Seq(first), data); err != nil {
				return nil, nil, err
			}
			continue
		}
		tail = data
		r = &record{rev: rev, tailFirst: store.Seq(tailFirst), tailBytes: len(data)}
		if listed != nil {
			r.listed = store.Status(*listed)
		}
		var err error
		r.state, err = store.DecodeState(state)
		if err != nil {
			return nil, nil, err
		}
		if n := r.state.Length; n < 1<<20 {
			l.entries = make([]store.Entry, 0, n+4) // a wake appends a few
		}
	}
	if err := rows.Err(); err != nil || r == nil || r.state.Deleted {
		return r, nil, err
	}
	err := l.decode(r.tailFirst, tail)
	return r, l.entries, err
}

// loader collects the entries of consecutive chunks.
type loader struct {
	entries []store.Entry
	from    store.Seq // entries before it are left out
	next    store.Seq // the seq that follows
	begun   bool      // next is known
}

// decode takes the entries of a chunk, which must not change: they share its memory. An empty chunk is the tail of a journal
// that has none.
func (l *loader) decode(first store.Seq, chunk []byte) error {
	if len(chunk) == 0 {
		return nil
	}
	if l.begun && first != l.next {
		return fmt.Errorf("%w: entry %d follows entry %d", store.ErrCorrupt, first, int64(l.next)-1)
	}
	l.next, l.begun = first, true
	for len(chunk) > 0 {
		n, size := binary.Uvarint(chunk)
		if size <= 0 || n > uint64(len(chunk)-size) {
			return fmt.Errorf("%w: chunk ends within entry %d", store.ErrCorrupt, l.next)
		}
		e, err := store.DecodeEntry(chunk[size : size+int(n)])
		if err != nil {
			return fmt.Errorf("entry %d: %w", l.next, err)
		}
		if e.Seq != l.next {
			return fmt.Errorf("%w: entry %d where %d belongs", store.ErrCorrupt, e.Seq, l.next)
		}
		if e.Seq >= l.from {
			l.entries = append(l.entries, e)
		}
		l.next, chunk = l.next+1, chunk[size+int(n):]
	}
	return nil
}

// pageRows bounds the rows of one page, pageBytes the bytes of the rows before its last one.
const (
	pageRows  = 256
	pageBytes = 1 << 20
)

// loadSQL reads a page of the chunks of an iteration, from the one that holds seq $4 on, and the tail if it is of that iteration.
const loadSQL = `select first, data, tail from (
	select first, data, false as tail, sum(octet_length(data)) over (order by first) - octet_length(data) as before from (
		select c.first, c.data from wfhost.chunk c where c.ns = $1 and c.id = $2 and c.iteration = $3 and c.first >= coalesce(
			(select max(d.first) from wfhost.chunk d where d.ns = $1 and d.id = $2 and d.iteration = $3 and d.first <= $4), 0)
		order by c.first limit $5) c
	union all
	select r.tail_first, r.tail, true, 0 from wfhost.run r
		where r.ns = $1 and r.id = $2 and r.iteration = $3 and not r.deleted and octet_length(r.tail) > 0
) x where before < $6 order by tail, first`

// Load reads entries, page by page.
func (s *Store) Load(ctx context.Context, run store.RunKey, iteration uint32, from store.Seq) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		if err := s.usable(); err != nil {
			yield(store.Entry{}, err)
			return
		}
		if !legal(run.ID) {
			return
		}
		l := loader{from: from}
		for pages := 0; ; pages++ {
			more, err := s.loadPage(ctx, run, iteration, &l)
			for i := range l.entries {
				if !yield(l.entries[i], nil) {
					return
				}
			}
			if err == nil && !more && pages > 0 && len(l.entries) == 0 {
				err = s.there(ctx, run, iteration, l.next)
			}
			if err != nil {
				yield(store.Entry{}, fmt.Errorf("journal of run %q: %w", run.ID, err))
			}
			if err != nil || !more {
				return
			}
			l.entries, l.from = nil, l.next
		}
	}
}

// there returns store.ErrNotFound if a run was deleted, or the journal of its iteration was removed, so that a reader does not
// take what it has for a whole journal.
func (s *Store) there(ctx context.Context, run store.RunKey, iteration uint32, next store.Seq) error {
	now := map[store.RunKey]*record{}
	err := s.records(ctx, []store.RunKey{run}, now)
	switch r := now[run]; {
	case err != nil:
		return err
	case r == absent || r.state.Deleted:
		return fmt.Errorf("%w: it was deleted while it was read", store.ErrNotFound)
	case iteration == 0 && next <= 1: // entry 0 of iteration 0 is never removed
		return nil
	default:
		return r.state.Removed(iteration)
	}
}

// loadPage reads the next page. more is true if another one may follow.
func (s *Store) loadPage(ctx context.Context, run store.RunKey, iteration uint32, l *loader) (more bool, err error) {
	at := *l
	err = s.read(ctx, func(ctx context.Context) error {
		*l, more = at, false
		rows, err := s.pool.Query(ctx, loadSQL, int32(run.Namespace), run.ID, int32(iteration), int64(at.from), pageRows, pageBytes)
		if err != nil {
			return err
		}
		var first int64
		var data []byte
		var tail bool
		_, err = pgx.ForEachRow(rows, []any{&first, &data, &tail}, func() error {
			switch seq := store.Seq(first); {
			case tail && l.begun && seq > l.next: // chunks lie between
				return nil
			case tail:
				more = false
			case at.begun && seq < at.next: // was read already
				return nil
			default:
				more = true
			}
			return l.decode(store.Seq(first), data)
		})
		return err
	})
	return more, err
}

const pageSQL = `select n, data from (
	select n, data, sum(octet_length(data)) over (order by n) - octet_length(data) as before from (
		select n, data from wfhost.%s where ns = $1 and id = $2 and n >= $3 order by n limit $4) y
) x where before < $5 order by n`

// page reads rows of a list of a run.
func (s *Store) page(ctx context.Context, table string, run store.RunKey, from uint64, limit int,
	take func(data []byte) error) error {
	if err := s.usable(); err != nil || !legal(run.ID) || limit <= 0 || int64(from) < 0 {
		return err
	}
	return s.read(ctx, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, fmt.Sprintf(pageSQL, table), int32(run.Namespace), run.ID, int64(from), limit,
			store.MaxPageBytes)
		if err != nil {
			return err
		}
		var n int64
		var data []byte
		_, err = pgx.ForEachRow(rows, []any{&n, &data}, func() error { return take(data) })
		return err
	})
}

// Logs reads log lines.
func (s *Store) Logs(ctx context.Context, run store.RunKey, from uint64, limit int) (list []store.LogLine, err error) {
	err = s.page(ctx, "log", run, from, limit, func(b []byte) error {
		x, err := store.DecodeLogLine(b)
		list = append(list, x)
		return err
	})
	return list, err
}

// Output reads chunks of output.
func (s *Store) Output(ctx context.Context, run store.RunKey, from uint64, limit int) (list []store.Chunk, err error) {
	err = s.page(ctx, "output", run, from, limit, func(b []byte) error {
		x, err := store.DecodeChunk(b)
		list = append(list, x)
		return err
	})
	return list, err
}
