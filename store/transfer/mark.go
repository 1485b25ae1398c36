package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/store"
)

// A Mark keeps hosts from opening a store.
type Mark struct {
	Move  string `json:"move"` // identifies the call of Copy; both stores have it
	State State  `json:"state"`
	Place string `json:"place"` // of the other store
}

// State says why a host must not open a store.
type State string

// The states.
const (
	Incomplete State = "incomplete" // a copy of Place that has not all of its records, or was not compared with it
	Whole      State = "whole"      // a copy of Place, which may not be marked as moved yet
	Moved      State = "moved"      // Place has the data
	Held       State = "copy"       // a copy that must not act until it is released: see store.ErrCopy. Hosts may open it
)

// Errors of Mark.Refuse, to be tested with errors.Is.
var (
	// ErrMoved: the data is in another store.
	ErrMoved = errors.New("the data was moved")
	// ErrIncomplete: the store is a copy that was not completed.
	ErrIncomplete = errors.New("the copy was not completed")
)

// Refuse returns why a host must not open the store at a place, and what to do. It is nil if m is nil.
func (m *Mark) Refuse(place string) error {
	switch {
	case m == nil:
		return nil
	case m.State == Moved:
		return fmt.Errorf("%w: what was in %s is in %s; use that store. To go back to what was here before the move, and lose what "+
			"was done there since, destroy that store and run `wfhost store reopen` for this one", ErrMoved, place, m.Place)
	case m.State == Whole:
		return fmt.Errorf("%w: %s is a whole copy of %s, but the move was interrupted: repeat the same `wfhost store copy`, which "+
			"completes it", ErrIncomplete, place, m.Place)
	case m.State == Held:
		return fmt.Errorf("%w; or, if its original is gone, until `wfhost store reopen` for %s", store.ErrCopy, place)
	case m.State == Incomplete:
		return fmt.Errorf("%w: %s has a part of %s: repeat the same `wfhost store copy`, which begins anew, or delete it",
			ErrIncomplete, place, m.Place)
	}
	return fmt.Errorf("%w: the mark %q of %s", store.ErrVersion, m.State, place)
}

// Encode returns the mark as text.
func (m *Mark) Encode() string {
	b, _ := json.Marshal(m) // strings only
	return string(b)
}

// DecodeMark reads what Encode returned.
func DecodeMark(text []byte) (*Mark, error) {
	var m Mark
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%w: mark of a copy: %w", store.ErrCorrupt, err)
	}
	return &m, nil
}

// Reopen removes the mark of a store whose data was moved, or of a copy, durable on return. It returns where the data was moved
// to, "" for a copy. The caller must have made sure that no host ever opens the other store again: both would make the same
// steps.
func Reopen(ctx context.Context, s Store) (other string, err error) {
	m, err := s.Mark(ctx)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", s.Place(), err)
	case m == nil:
		return "", fmt.Errorf("%s was not moved and is no copy: a server can open it", s.Place())
	case m.State != Moved && m.State != Held:
		return "", m.Refuse(s.Place())
	}
	if err := s.SetMark(ctx, nil); err != nil {
		return "", fmt.Errorf("%s: %w", s.Place(), err)
	}
	return m.Place, nil
}
