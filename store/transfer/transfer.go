// Package transfer copies everything durable from one store into another, whatever they keep it in, and makes the other one
// take the place of the first. pebblestore and postgres implement its interfaces.
//
// Both stores are locked meanwhile. Each has a mark that survives a crash, see Mark: at any instant at most one of the two can be
// opened by a host. The target is marked before its first record and until it was read back and compared. Then the source is
// marked as moved, and only then the target loses its mark. Between these two writes, neither can be opened, and a
// repetition of Copy makes the last one.
package transfer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
)

// A Store is one side of a copy. No host has it open.
type Store interface {
	// Place names the store for people, without a password. It is the same whenever the store is opened from one place.
	Place() string
	// Mark returns the mark of the store, nil for none.
	Mark(ctx context.Context) (*Mark, error)
	// SetMark sets the mark, or removes it if m is nil; durable on return.
	SetMark(ctx context.Context, m *Mark) error
	// Holds names a kind of records that the store holds, "" for none.
	Holds(ctx context.Context) (string, error)
	// Clear removes all records that Import has added. The mark stays.
	Clear(ctx context.Context) error
	// Export passes each record to take, in the order that Kind describes, as of one instant. The record and its bytes are valid
	// until take returns.
	Export(ctx context.Context, take func(*Record) error) error
	// Import adds records to a store that holds none.
	Import(ctx context.Context) (Importer, error)
	// Close unlocks the store.
	Close() error
}

// An Importer adds records in the order of Export. Each run needs the records of its journal before the next run.
type Importer interface {
	// Add adds a record, and keeps nothing of it.
	Add(ctx context.Context, r *Record) error
	// Finish adds what follows from the records, such as indexes and counts. All of it is durable on return.
	Finish(ctx context.Context) error
}

// Copies is a Store that can be a copy that must not act: see store.ErrCopy.
type Copies interface {
	// MarkCopy replaces the mark of the store, durable on return.
	MarkCopy() error
}

// Options configures Copy. The zero value moves the data.
type Options struct {
	// Keep leaves the source as it is, and makes the target a copy that must not act. The target must be a Copies. A source that
	// takes part in other work is copied as of one instant.
	Keep bool
	// Progress is called now and then, with what is being done and the number of records so far. nil: none.
	Progress func(step Step, records int64)
}

// Step is a part of Copy.
type Step string

// The steps.
const (
	Copying   Step = "copied"
	Comparing Step = "compared"
)

// Report is what Copy has done.
type Report struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Kinds []Sum  `json:"kinds,omitempty"` // of both stores, which are equal; none if an earlier call had copied them
	// Kept is true if the source goes on, and the target is a copy that must not act.
	Kept bool `json:"kept,omitempty"`
}

// Records returns the number of records of a kind.
func (r *Report) Records(k Kind) int64 {
	for _, s := range r.Kinds {
		if s.Kind == k {
			return s.Records
		}
	}
	return 0
}

// Errors of Copy, to be tested with errors.Is.
var (
	// ErrOccupied: the target holds data.
	ErrOccupied = errors.New("the target is not empty")
	// ErrDiffers: the target does not hold what was copied.
	ErrDiffers = errors.New("the copy differs from the source")
)

// Copy copies all records of a store into an empty one, reads them back, and compares them. Then the data is moved: no host opens
// the source any more. It begins anew in a target in which it was interrupted, and completes a move that lacks only the last
// mark.
//
// After an error, the source is as it was, and the target is marked as incomplete, or untouched. The exception is an error of the
// last two writes: then a repetition completes the move.
func Copy(ctx context.Context, from, to Store, opts Options) (*Report, error) {
	c := &copying{from: from, to: to, opts: opts}
	whole, err := c.begin(ctx)
	if err != nil || whole {
		return &Report{From: from.Place(), To: to.Place()}, err
	}
	m := &Mark{Move: drawMove(), State: Incomplete, Place: from.Place()}
	if err := to.SetMark(ctx, m); err != nil {
		return nil, fmt.Errorf("%s: %w", to.Place(), err)
	}
	if err := to.Clear(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", to.Place(), err)
	}
	sums, err := c.copy(ctx)
	if err == nil {
		err = c.compare(ctx, sums)
	}
	if err != nil {
		return nil, err
	}
	r := &Report{From: from.Place(), To: to.Place(), Kinds: sums.list(), Kept: opts.Keep}
	if opts.Keep {
		return r, to.(Copies).MarkCopy() //nolint:forcetypeassert // begin has checked it
	}
	return r, c.swap(ctx, m)
}

type copying struct {
	from, to Store
	opts     Options
	records  int64
}

// begin checks that the target may be filled. whole is true if it was filled, and has now lost the mark that it still had.
func (c *copying) begin(ctx context.Context) (whole bool, err error) {
	if c.from.Place() == c.to.Place() {
		return false, fmt.Errorf("source and target are the same: %s", c.from.Place())
	}
	if _, ok := c.to.(Copies); c.opts.Keep && !ok {
		return false, fmt.Errorf("%s cannot be a copy beside its original: copy it into a folder", c.to.Place())
	}
	source, err := c.from.Mark(ctx)
	if err != nil {
		return false, fmt.Errorf("%s: %w", c.from.Place(), err)
	}
	target, err := c.to.Mark(ctx)
	if err != nil {
		return false, fmt.Errorf("%s: %w", c.to.Place(), err)
	}
	switch {
	case source != nil && target != nil && source.State == Moved && target.State == Whole && source.Move == target.Move:
		return true, c.to.SetMark(ctx, nil)
	case source != nil:
		return false, source.Refuse(c.from.Place())
	case target == nil:
		what, err := c.to.Holds(ctx)
		if err == nil && what != "" {
			err = fmt.Errorf("%w: %s has %s; copy into a new folder or database", ErrOccupied, c.to.Place(), what)
		}
		return false, err
	case target.State == Moved, target.State == Held, target.State == Whole && target.Place != c.from.Place():
		return false, target.Refuse(c.to.Place())
	}
	return false, nil // an interrupted copy: nothing has ever used it
}

// swap makes the target take the place of the source.
func (c *copying) swap(ctx context.Context, m *Mark) error {
	if err := c.to.SetMark(ctx, &Mark{Move: m.Move, State: Whole, Place: m.Place}); err != nil {
		return fmt.Errorf("%s: %w", c.to.Place(), err)
	}
	if err := c.from.SetMark(ctx, &Mark{Move: m.Move, State: Moved, Place: c.to.Place()}); err != nil {
		return fmt.Errorf("%s: %w; the copy is complete: run the command again", c.from.Place(), err)
	}
	if err := c.to.SetMark(ctx, nil); err != nil {
		return fmt.Errorf("%s: %w; the copy is complete: run the command again", c.to.Place(), err)
	}
	return nil
}

// copy copies all records, after it has checked each of them.
func (c *copying) copy(ctx context.Context) (*sums, error) {
	into, err := c.to.Import(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.to.Place(), err)
	}
	sums := &sums{}
	journals := &journals{}
	err = c.from.Export(ctx, func(r *Record) error {
		if err := journals.check(r); err != nil {
			return fmt.Errorf("%s: %w", c.from.Place(), err)
		}
		sums.add(r)
		c.progress(Copying)
		if err := into.Add(ctx, r); err != nil {
			return fmt.Errorf("%s: %s: %w", c.to.Place(), r, err)
		}
		return ctx.Err()
	})
	if err == nil {
		err = journals.end()
	}
	if err != nil {
		return nil, err
	}
	if err := into.Finish(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", c.to.Place(), err)
	}
	return sums, nil
}

// compare reads the target.
func (c *copying) compare(ctx context.Context, want *sums) error {
	got := &sums{}
	c.records = 0
	err := c.to.Export(ctx, func(r *Record) error {
		got.add(r)
		c.progress(Comparing)
		return ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("read the copy: %w", err)
	}
	for k := range kinds {
		if a, b := want.kinds[k], got.kinds[k]; a != b {
			return fmt.Errorf("%w: %s has %d %s with %d bytes and the checksum %x…, %s has %d with %d bytes and %x…", ErrDiffers,
				c.from.Place(), a.records, k, a.bytes, a.sum[:4], c.to.Place(), b.records, b.bytes, b.sum[:4])
		}
	}
	return nil
}

// progressEvery is the number of records between two calls of Options.Progress.
const progressEvery = 1 << 12

func (c *copying) progress(step Step) {
	c.records++
	if c.opts.Progress != nil && c.records%progressEvery == 0 {
		c.opts.Progress(step, c.records)
	}
}

func drawMove() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
