package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wfhost/wfhost/store"
)

// leaseTime is how long a process holds the store after its last sign of life; it gives one each beatTime. After a process was
// killed, the next one waits for the rest.
const (
	leaseTime = 4 * time.Second
	beatTime  = leaseTime / 5
)

// lease keeps other processes from opening the store. Partitions are fenced without it; it keeps two servers from taking them
// from each other all the time.
type lease struct {
	session
	token [16]byte
	name  string
	beats int64 // the newest number of a beat in the database
	stop  context.CancelFunc
	ended chan struct{}
}

// session is the connection of what shows with beats that it is alive. It is not of the pool, whose connections may all be in
// use.
type session struct {
	conn *pgx.Conn                 // nil = to be connected
	good atomic.Pointer[time.Time] // when the last beat that prolonged the lease has begun
}

// hold takes the lease, and prolongs it until the store is closed. store.ErrLocked if another process has it.
func (s *Store) hold(ctx context.Context) error {
	machine, err := os.Hostname()
	if err != nil {
		machine = "unknown"
	}
	l := &lease{token: randomToken(), name: fmt.Sprintf("%s, process %d", machine, os.Getpid()), ended: make(chan struct{})}
	by, err := s.beat(ctx, l, true)
	if err == nil && by != "" {
		err = fmt.Errorf("%w: %s", store.ErrLocked, by)
	}
	if err != nil {
		l.disconnect()
		return s.failed(err)
	}
	var beating context.Context
	beating, l.stop = context.WithCancel(context.Background())
	s.lease = l
	go func() {
		defer close(l.ended)
		for wait(beating, beatTime) && s.Failure() == nil {
			if by, err := s.beat(beating, l, false); err == nil && by != "" {
				s.leaseLost(by)
			}
		}
	}()
	return nil
}

// free returns store.ErrLocked if a process has the lease.
func (s *Store) free(ctx context.Context) error {
	var by *string
	err := s.pool.QueryRow(ctx, "select name from wfhost.holder where token is not null and until > clock_timestamp()").Scan(&by)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return s.failed(err)
	}
	return fmt.Errorf("%w: %s", store.ErrLocked, *by)
}

// leased reports whether this process has prolonged its lease, or its membership, which has not ended yet. A read may be answered
// from memory only then: no other process has taken a partition that this one has.
func (s *Store) leased() bool {
	if s.lease != nil {
		return elapsed(*s.lease.good.Load()) < leaseTime
	}
	m := s.member.Load()
	return m != nil && elapsed(*m.good.Load()) < m.ttl
}

// wait reports whether a time has passed before ctx was done.
func wait(ctx context.Context, d time.Duration) bool {
	timed, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-timed.Done()
	return ctx.Err() == nil
}

// beat takes the lease if it is the first one, and prolongs it otherwise. It returns the name of the process that has it, "" for
// this one.
func (s *Store) beat(ctx context.Context, l *lease, first bool) (by string, err error) {
	most := leaseTime
	if first {
		most = writeTimeout // it waits for changes of settings
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if err := l.connect(ctx, s); err != nil {
		return "", err
	}
	begun := start()
	var taken *string
	var beats int64
	var timeline string
	err = l.conn.QueryRow(ctx, "select taken_by, beats, timeline from wfhost.hold($1, $2, $3, $4)", l.token, l.name,
		leaseTime.Milliseconds(), first).Scan(&taken, &beats, &timeline)
	switch {
	case err != nil:
		l.disconnect()
		return "", err
	case taken != nil:
		return *taken, nil
	case beats <= l.beats:
		return "", s.wentBack("it has an earlier state")
	}
	l.beats = beats
	l.good.Store(&begun)
	return "", s.follow(timeline) // a pooler may have connected to another server
}

func (s *Store) leaseLost(by string) {
	s.fail(fmt.Errorf("%w: %s has opened the database, since this process had shown no life for %v", store.ErrFailed, by, leaseTime))
}

// follow makes the store fail if the database has another timeline than before.
func (s *Store) follow(timeline string) error {
	if s.timeline.CompareAndSwap(nil, &timeline) || *s.timeline.Load() == timeline {
		return nil
	}
	return s.wentBack(fmt.Sprintf("its timeline is %s, it was %s", timeline, *s.timeline.Load()))
}

// wentBack makes the store fail, since the host has in memory what the database may have lost: ids of namespaces, numbers of
// commands, runs. It returns the failure.
func (s *Store) wentBack(why string) error {
	s.fail(fmt.Errorf("%w: a standby of the database was promoted, or a backup was restored (%s), so it may have lost its newest "+
		"changes: start again", store.ErrFailed, why))
	return s.Failure()
}

// connect connects the session unless it is connected.
func (c *session) connect(ctx context.Context, s *Store) (err error) {
	if c.conn != nil {
		return nil
	}
	cfg := s.pool.Config().ConnConfig // a copy
	prepareConn(cfg)
	c.conn, err = pgx.ConnectConfig(ctx, cfg)
	return err
}

func (c *session) disconnect() {
	if c.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
	defer cancel()
	_ = c.conn.Close(ctx) // the server ends the session anyway
	c.conn = nil
}

// letGo gives the lease up.
func (s *Store) letGo() {
	l := s.lease
	if l == nil {
		return
	}
	l.stop()
	<-l.ended
	ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
	defer cancel()
	// A beat that was stopped has lost its connection. If this fails, the lease ends by itself.
	if l.connect(ctx, s) == nil {
		_, _ = l.conn.Exec(ctx, "update wfhost.holder set token = null where token = $1", l.token)
	}
	l.disconnect()
}

// fail makes the store refuse all further calls.
func (s *Store) fail(err error) {
	if s.failure.CompareAndSwap(nil, &err) {
		close(s.failing)
	}
}

// Failed returns a channel that is closed when the store has failed: another process has opened it, or it went back in time.
func (s *Store) Failed() <-chan struct{} { return s.failing }

// Failure returns the reason, as an ErrFailed.
func (s *Store) Failure() error {
	if err := s.failure.Load(); err != nil {
		return *err
	}
	return nil
}
