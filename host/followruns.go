package host

import (
	"context"
	"fmt"
	"iter"
)

// MaxFollowed is how many changed runs may be pending for a caller of FollowRuns: some seconds of a busy host. A
// caller that exceeds it reads more slowly than runs change.
const MaxFollowed = 10_000

// FollowRuns yields the runs of the namespace, or of a workflow if it is not empty, whenever a change of a run has
// become durable, in their current durable state. It reports changes from now on, and changes in quick succession as
// one.
//
// began, if not nil, is called when FollowRuns begins to collect changes: list the runs after that to miss none. The
// iteration ends with an error: that of ctx, ErrClosed, or ErrBusy if more than MaxFollowed changed runs are pending,
// so that some are lost; then list the runs and follow them again. It does not report runs that are deleted, or that
// another host on the same store owns.
func (s *scope) FollowRuns(ctx context.Context, workflow string, began func()) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		ns, err := s.id(ctx, false)
		if err != nil {
			yield(Run{}, translate(err))
			return
		}
		feed := s.h.rt.Watchers.Feed(ns, MaxFollowed)
		defer feed.Stop()
		if began != nil {
			began()
		}
		for {
			select {
			case <-feed.Changed():
			case <-s.h.closed:
				yield(Run{}, ErrClosed)
				return
			case <-ctx.Done():
				yield(Run{}, ctx.Err())
				return
			}
			ids, complete := feed.Take()
			for _, id := range ids {
				r, err := s.Get(ctx, id)
				if isNotFound(err) {
					continue
				}
				if err != nil {
					yield(Run{}, err)
					return
				}
				if (workflow == "" || r.Workflow == workflow) && !yield(r, nil) {
					return
				}
			}
			if !complete {
				yield(Run{}, fmt.Errorf("%w: more than %d runs have changed since some were taken", ErrBusy, MaxFollowed))
				return
			}
		}
	}
}
