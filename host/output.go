package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/guest"
	"github.com/wfhost/wfhost/store"
)

// Chunk is one piece of a run's output, as [Host.Output] returns it. It is [store.Chunk]:
//
//	Index  uint64 // its number in the output of the run, from 0, over all topics and iterations
//	UnixMs int64  // when it was emitted, in milliseconds
//	Topic  string // under which the workflow emitted it
//	Data   []byte // what it emitted: JSON from the Go SDK
type Chunk = store.Chunk

// outputPage bounds the chunks that are read at a time.
const outputPage = 256

// Output yields the durable output of a run, starting at an index: of one topic, or of all if topic is empty. Indexes
// count over all topics and iterations, from 0. A negative index counts from the end: -3 begins with the third last
// chunk, of the topic if one is given.
func (s *scope) Output(ctx context.Context, id, topic string, from int64) iter.Seq2[Chunk, error] {
	return s.output(ctx, id, topic, from, false)
}

// FollowOutput is Output that continues with new chunks, until the run has ended or ctx is done.
func (s *scope) FollowOutput(ctx context.Context, id, topic string, from int64) iter.Seq2[Chunk, error] {
	return s.output(ctx, id, topic, from, true)
}

func (s *nsRef) output(ctx context.Context, id, topic string, from int64, follow bool) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		key, err := s.key(ctx, id)
		if err != nil {
			yield(Chunk{}, translate(err))
			return
		}
		changed, stop := s.h.rt.Watchers.Watch(key)
		defer stop()
		next := uint64(max(from, 0))
		for {
			r, err := s.get(ctx, id) // before the chunks, so that the last chunk of an ended run is read
			if err != nil {
				yield(Chunk{}, err)
				return
			}
			if from < 0 {
				next, err = s.last(ctx, key, topic, r.Output, -uint64(from))
				if err != nil {
					yield(Chunk{}, translate(err))
					return
				}
				from = 0
			}
			for {
				chunks, err := s.h.store.Output(ctx, key, next, outputPage)
				if err != nil {
					yield(Chunk{}, translate(err))
					return
				}
				for _, c := range chunks {
					next = c.Index + 1
					if (topic == "" || c.Topic == topic) && !yield(c, nil) {
						return
					}
				}
				if len(chunks) == 0 || next >= r.Output { // newer chunks are signalled by changed
					break
				}
			}
			if !follow || r.Status.Terminal() {
				return
			}
			select {
			case <-changed:
			case <-s.h.closed:
				yield(Chunk{}, ErrClosed)
				return
			case <-ctx.Done():
				yield(Chunk{}, ctx.Err())
				return
			}
		}
	}
}

// last returns the index of the n-th last chunk, of the topic if it is not empty; 0 if there are fewer. It reads
// backwards, a page at a time, only as far as necessary. Over a gap, as a run that repeats another one may have, pages double.
func (s *nsRef) last(ctx context.Context, key store.RunKey, topic string, length, n uint64) (uint64, error) {
	if topic == "" {
		return length - min(n, length), nil
	}
	page := uint64(outputPage)
	for end := length; end > 0 && ctx.Err() == nil; {
		begin := end - min(end, page)
		page *= 2
		var of []uint64 // the indexes of the topic
		for next := begin; next < end; {
			chunks, err := s.h.store.Output(ctx, key, next, int(min(end-next, outputPage)))
			if err != nil {
				return 0, err
			}
			if len(chunks) == 0 {
				break
			}
			for i := range chunks {
				next = chunks[i].Index + 1
				if next > end { // behind the gap
					break
				}
				page = outputPage
				if chunks[i].Topic == topic {
					of = append(of, chunks[i].Index)
				}
			}
		}
		if k := uint64(len(of)); n <= k {
			return of[k-n], nil
		}
		n -= uint64(len(of))
		end = begin
	}
	return 0, ctx.Err()
}

// queryPatience is how long a query waits for a busy workflow to reach a wait, where it can be queried: several times
// what a workflow may compute between two waits.
const queryPatience = 10 * time.Second

// ask queries a run. While the durable journal ends where the workflow cannot be queried and more entries will follow,
// it retries. st is the state of the run that answered.
func (s *nsRef) ask(ctx context.Context, key store.RunKey, name string, input []byte) (_ []byte, st store.RunState, err error) {
	changed, stop := s.h.rt.Watchers.Watch(key)
	defer stop()
	patience := s.h.cfg.Clock.NewTimer(queryPatience)
	defer patience.Stop()
	for {
		answer, st, err := s.h.rt.Runs.Query(ctx, key, name, input)
		// a caller may have started the run just now
		begins := errors.Is(err, guest.ErrNotBegun) && strings.HasPrefix(name, abi.UpdatePrefix)
		if !errors.Is(err, guest.ErrOnItsWay) && !begins {
			return answer, st, err
		}
		now, e := s.h.rt.Runs.Durable(ctx, key)
		switch {
		case e != nil:
			return nil, st, e
		case now.Status.Attention(), st.Status.Terminal():
			return answer, st, err
		case now.Status.Terminal(): // the run has just ended: ask again, now at its end
			continue
		}
		select {
		case <-changed:
		case <-patience.C():
			return answer, st, err
		case <-s.h.closed:
			return nil, st, ErrClosed
		case <-ctx.Done():
			return nil, st, ctx.Err()
		}
	}
}

// QueryError is the error of a query that the workflow refused, or for which it could not be asked:
//
//	Run, Name string
//	JSON      []byte // the answer of the workflow; nil if it could not be asked
//	Cause     error
type QueryError = guest.QueryError

// Query asks a run a question that its workflow offers, with an input that is encoded as JSON, and returns the
// answer. The workflow is replayed from what is durable; nothing is changed. A run that has ended is asked at its
// end, as long as the run is kept. ErrNotFound if there is no such run or query, *QueryError if the workflow refused
// or does not answer. A busy workflow is asked when it reaches a wait, within ten seconds.
func (s *scope) Query(ctx context.Context, id, name string, input any) (json.RawMessage, error) {
	b, err := encoded(fmt.Sprintf("the input of query %q", name), input)
	if err != nil {
		return nil, err
	}
	if len(b) > abi.MaxPayloadBytes {
		return nil, translate(abi.Errorf(abi.TooLarge, "the input of query %q has %d bytes, the limit is %d", name, len(b),
			abi.MaxPayloadBytes))
	}
	key, err := s.key(ctx, id)
	if err == nil {
		err = abi.CheckName("query name", name)
	}
	if err != nil {
		return nil, translate(err)
	}
	answer, _, err := s.ask(ctx, key, name, b)
	var q *QueryError
	if errors.As(err, &q) && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	return answer, translate(err)
}
