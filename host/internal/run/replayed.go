package run

import (
	"errors"

	"github.com/wfhost/wfhost/store"
)

// Replayed is the tail of a replay that only reads its entries.
type Replayed []store.Entry

func (t Replayed) Entries() []store.Entry { return t }
func (t Replayed) CallRoom() error        { return nil }

// CheckAttribute is never called: a replay makes no calls of its own.
func (t Replayed) CheckAttribute(string) error { return nil }

// Now is never called either.
func (t Replayed) Now() int64 { return 0 }

// Append always fails.
func (t Replayed) Append(e store.Entry) (store.Entry, error) {
	return e, errors.New("a body's copy of the workflow cannot append")
}
