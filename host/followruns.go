package host

import (
	"context"
	"fmt"
	"iter"
)

// MaxFollowed is how many runs that have changed are kept for one who follows them: he reads slower than they change, and some
// seconds of a busy host are in it.
const MaxFollowed = 10_000

// FollowRuns gives the runs of the namespace whenever something of them has become durable, as they stand then, from now on:
// those of a workflow, if it is not empty. Changes that come quickly are given as one. It ends with an error: that of ctx;
// ErrClosed; or ErrBusy if more than MaxFollowed runs have changed which were not taken yet, so that some are missing: list the
// runs, and follow them again. began, unless it is nil, is called when changes are gathered: what is listed after that misses
// nothing.
//
// Runs that are deleted, and those that another host owns which shares the store, are not given.
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
