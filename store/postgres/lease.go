package postgres

import (
	"context"
	"fmt"
	"os"
	"time"

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
	token [16]byte
	name  string
	stop  context.CancelFunc
	ended chan struct{}
}

// hold takes the lease, and prolongs it until the store is closed. store.ErrLocked if another process has it.
func (s *Store) hold(ctx context.Context) error {
	machine, err := os.Hostname()
	if err != nil {
		machine = "unknown"
	}
	l := &lease{token: randomToken(), name: fmt.Sprintf("%s, process %d", machine, os.Getpid()), ended: make(chan struct{})}
	switch by, err := s.beat(ctx, l); {
	case err != nil:
		return s.failed(err)
	case by != "":
		return fmt.Errorf("%w: %s", store.ErrLocked, by)
	}
	var beating context.Context
	beating, l.stop = context.WithCancel(context.Background())
	s.lease = l
	go func() {
		defer close(l.ended)
		for wait(beating, beatTime) {
			if by, err := s.beat(beating, l); err == nil && by != "" {
				s.fail(fmt.Errorf("%w: %s has opened the database, since this process had shown no life for %v", store.ErrFailed, by,
					leaseTime))
				return
			}
		}
	}()
	return nil
}

// wait reports whether a time has passed before ctx was done.
func wait(ctx context.Context, d time.Duration) bool {
	timed, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-timed.Done()
	return ctx.Err() == nil
}

// beat takes or prolongs the lease. It returns the name of the process that has it, "" for this one.
func (s *Store) beat(ctx context.Context, l *lease) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseTime)
	defer cancel()
	var by *string
	err := s.pool.QueryRow(ctx, "select wfhost.hold($1, $2, $3)", l.token, l.name, leaseTime.Milliseconds()).Scan(&by)
	if err != nil || by == nil {
		return "", err
	}
	return *by, nil
}

// letGo gives the lease up.
func (s *Store) letGo() {
	if s.lease == nil {
		return
	}
	s.lease.stop()
	<-s.lease.ended
	ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
	defer cancel()
	// If this fails, the lease ends by itself.
	_, _ = s.pool.Exec(ctx, "update wfhost.holder set token = null where token = $1", s.lease.token)
}

// fail makes the store refuse all further calls.
func (s *Store) fail(err error) {
	if s.failure.CompareAndSwap(nil, &err) {
		close(s.failing)
	}
}

// Failed returns a channel that is closed when the store has failed: another process has opened it.
func (s *Store) Failed() <-chan struct{} { return s.failing }

// Failure returns the reason, as an ErrFailed.
func (s *Store) Failure() error {
	if err := s.failure.Load(); err != nil {
		return *err
	}
	return nil
}
