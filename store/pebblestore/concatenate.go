package pebblestore

import (
	"io"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// mergeName is the name of the operator that stores have on record: that of Pebble's own, which concatenates as well.
const mergeName = "pebble.concatenate"

// concatenate is the operator by which a chunk of a journal grows. Pebble's own makes the value anew for each part, while chunks
// have some dozens, and Pebble hands them over from the newest to the oldest.
var concatenate = &pebble.Merger{
	Name: mergeName,
	Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		c := &concatenation{}
		return c, c.MergeOlder(value)
	},
}

// concatenation is a value that grows at both ends. It is what buf has from begin on.
type concatenation struct {
	buf   []byte
	begin int
}

// MergeNewer appends a part.
func (c *concatenation) MergeNewer(value []byte) error {
	c.buf = append(c.buf, value...)
	return nil
}

// MergeOlder puts a part in front.
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
