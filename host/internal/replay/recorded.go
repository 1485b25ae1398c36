package replay

import (
	"errors"

	"github.com/wfhost/wfhost/store"
)

// Recorded is the Tail of a replay: entries that are only read.
type Recorded []store.Entry

func (t Recorded) Entries() []store.Entry { return t }
func (t Recorded) CallRoom() error        { return nil }

// CheckAttribute is not asked: a replay makes no calls of its own.
func (t Recorded) CheckAttribute(string) error { return nil }

// Append appends nothing.
func (t Recorded) Append(e store.Entry) (store.Entry, error) {
	return e, errors.New("a body's copy of the workflow cannot append")
}

// At returns the entry that a guest has come to: the newest call that it has made, or delivery that it has taken.
func At(m *Machine) store.Seq { return m.position }
