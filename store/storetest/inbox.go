package storetest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// testInboxConcurrently has several senders submit commands while the owner removes them: each arrives once, in its
// sender's order.
func testInboxConcurrently(t *testing.T, e *env) {
	ctx := context.Background()
	const p, senders, each = 3, 4, 200
	part, from := e.partition(p), e.partition(post)
	var wg sync.WaitGroup
	for sender := range senders {
		wg.Go(func() {
			for i := range each {
				cmd := store.Command{ID: store.CommandID{Iteration: uint32(sender), Seq: store.Seq(i)}, Kind: store.CommandSignal,
					To: in(0, p, 0)}
				if err := from.Discard(ctx, nil, []store.Command{cmd}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var sent atomic.Bool
	go func() {
		wg.Wait()
		sent.Store(true)
	}()
	var next [senders]store.Seq
	for taken := 0; taken < senders*each && !t.Failed(); {
		all := sent.Load()
		cmds, err := part.Commands(ctx, 0, 5)
		e.ok(err)
		if all && len(cmds) == 0 {
			t.Fatalf("%d of %d commands have come", taken, senders*each)
		}
		var seqs []store.CommandSeq
		for _, c := range cmds {
			if c.ID.Seq != next[c.ID.Iteration] {
				t.Errorf("command %d of sender %d, want %d", c.ID.Seq, c.ID.Iteration, next[c.ID.Iteration])
			}
			next[c.ID.Iteration]++
			seqs = append(seqs, c.Seq)
		}
		if !slices.IsSorted(seqs) {
			t.Errorf("commands %v", seqs)
		}
		taken += len(seqs)
		if len(seqs) > 0 {
			e.ok(part.Discard(ctx, seqs, nil))
		}
	}
	wg.Wait()
	e.reopen()
	if cmds, err := e.partition(p).Commands(ctx, 0, 5); err != nil || len(cmds) != 0 {
		t.Fatal(cmds, err)
	}
}
