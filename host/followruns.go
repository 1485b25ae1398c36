package host

import (
	"context"
	"fmt"
	"iter"
)

// MaxFollowed is how many changed runs wait for a caller of FollowRuns. That is some seconds of a busy host; a caller
// for whom more wait reads more slowly than they change.
const MaxFollowed = 10_000

// FollowRuns yields the runs of the namespace, or of a workflow if it is not empty, whenever a change of theirs has
// become durable, as they are then. It reports changes from now on, and changes in quick succession as one.
//
// began, unless it is nil, is called when FollowRuns begins to gather changes: if you list the runs after that, you
// miss nothing. The iteration ends with an error: that of ctx, ErrClosed, or ErrBusy if more than MaxFollowed changed
// runs wait for the caller, so that some are lost; then list the runs and follow them again. It does not report runs
// that are deleted, or that another host on the same store owns.
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
