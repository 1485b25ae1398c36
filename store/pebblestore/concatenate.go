package pebblestore

import (
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// mergeName is the name of the merge operator in the store's files. Pebble's own operator, which also concatenates, has
// this name.
const mergeName = "pebble.concatenate"

// concatenate is the merge operator by which a chunk of a journal grows. Pebble's own copies the value for each part,
// while chunks have some dozens of parts, and Pebble passes them from the newest to the oldest.
var concatenate = &pebble.Merger{
	Name: mergeName,
	Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		c := &concatenation{}
		return c, c.MergeOlder(value)
	},
}

// concatenation is a value that grows at both ends: buf from begin on.
type concatenation struct {
	buf   []byte
	begin int
}

// MergeNewer appends a part.
func (c *concatenation) MergeNewer(value []byte) error {
	c.buf = append(c.buf, value...)
	return nil
}

// MergeOlder prepends a part.
func (c *concatenation) MergeOlder(value []byte) error {
	if len(value) > c.begin {
		has := len(c.buf) - c.begin
		grown := slices.Grow([]byte(nil), 2*(has+len(value)))
		grown = grown[:cap(grown)]
		copy(grown[len(grown)-has:], c.buf[c.begin:])
		c.buf, c.begin = grown, len(grown)-has
	}
	c.begin -= len(value)
	copy(c.buf[c.begin:], value)
	return nil
}

// Finish returns the value.
func (c *concatenation) Finish(bool) ([]byte, io.Closer, error) { return c.buf[c.begin:], nil, nil }
