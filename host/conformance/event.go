package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/wfhost/wfhost/host"
)

// happen applies an event to the run of a story, and returns an error if the answer is wrong.
func (t *stage) happen(ctx context.Context, s *Story, e *Event) error {
	switch {
	case e.Signal != "":
		return t.SignalRaw(ctx, s.Name, e.Signal, compact(e.Data))
	case e.Deliver != "":
		_, err := t.Hooks().Deliver(ctx, e.Deliver, compact(e.Data))
		return err
	case e.Cancel:
		_, err := t.Cancel(ctx, s.Name)
		return err
	case e.Query != "":
		got, err := t.Query(ctx, s.Name, e.Query, json.RawMessage(compact(e.Data)))
		return e.judge("query "+e.Query, got, err)
	case e.Update != "":
		u, err := t.Update(ctx, s.Name, e.Update, json.RawMessage(compact(e.Data)), host.WithUpdateID("at "+e.At))
		return e.judge("update "+e.Update, u.Result, err)
	}
	return errors.New("the story says nothing that happens")
}

// judge compares an answer with the story's.
func (e *Event) judge(what string, got json.RawMessage, err error) error {
	switch {
	case e.Error != "" && err == nil:
		return fmt.Errorf("%s is answered %s, and should fail with %q", what, got, e.Error)
	case e.Error != "" && !strings.Contains(err.Error(), e.Error):
		return fmt.Errorf("%s fails with %q, and should with %q", what, err, e.Error)
	case e.Error != "":
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case !bytes.Equal(compact(got), compact(e.Want)):
		return fmt.Errorf("%s is answered %s, and should be %s", what, got, compact(e.Want))
	}
	return nil
}

// iteration identifies an iteration of a run. Each iteration starts with new memory.
type iteration struct {
	run string
	n   uint32
}

// point identifies a wait of a workflow by the number of deliveries before it.
type point struct {
	iteration

	deliveries uint64
}

// memories keeps the hash of each iteration's memory at each wait.
type memories struct {
	off    bool       // nothing is hashed, for benchmarks of the host
	mu     sync.Mutex // guards the fields below
	hashes map[point][32]byte
	again  int // how often a point was seen again
	differ map[iteration][]uint64
}

// see is called whenever a workflow waits.
func (m *memories) see(w host.WaitInfo) {
	if m.off {
		return
	}
	at, h := point{iteration{w.RunID, w.Iteration}, w.Deliveries}, w.Memory()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hashes == nil {
		m.hashes, m.differ = map[point][32]byte{}, map[iteration][]uint64{}
	}
	old, seen := m.hashes[at]
	m.hashes[at] = h
	if !seen {
		return
	}
	m.again++
	if list := m.differ[at.iteration]; old != h && !slices.Contains(list, at.deliveries) {
		m.differ[at.iteration] = append(list, at.deliveries)
	}
}

// points returns the number of compared hashes.
func (m *memories) points() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.again
}

// differences returns the numbers of deliveries after which the memory of an iteration differed.
func (m *memories) differences(of iteration) []uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(slices.Values(m.differ[of]))
}
