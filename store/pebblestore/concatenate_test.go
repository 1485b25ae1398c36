package pebblestore

import (
	"bytes"
	"fmt"
	"testing"
)

// Parts are concatenated in order, whichever end they are added to.
func TestConcatenate(t *testing.T) {
	v, err := concatenate.Merge(nil, []byte("middle"))
	if err != nil {
		t.Fatal(err)
	}
	want := "middle"
	for i := range 40 {
		older, newer := bytes.Repeat([]byte{'a' + byte(i%26)}, i), fmt.Sprint(i)
		part := bytes.Clone(older)
		if err := v.MergeOlder(part); err != nil {
			t.Fatal(err)
		}
		clear(part) // it is the caller's again
		if err := v.MergeNewer([]byte(newer)); err != nil {
			t.Fatal(err)
		}
		want = string(older) + want + newer
	}
	got, closer, err := v.Finish(true)
	if string(got) != want || closer != nil || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// Building a chunk of many parts writes a small multiple of its size, not everything again for each part.
func TestConcatenateAllocates(t *testing.T) {
	part := make([]byte, 100)
	allocs := testing.AllocsPerRun(10, func() {
		v, _ := concatenate.Merge(nil, part)
		for range 40 {
			_ = v.MergeOlder(part)
		}
		_, _, _ = v.Finish(true)
	})
	if allocs > 20 { // the race detector adds one or two
		t.Errorf("%v allocations for 41 parts, which are to share them", allocs)
	}
}
