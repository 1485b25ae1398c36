package pebblestore

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Written bytes are counted: in the log at once, in tables when they are flushed.
func TestUsage(t *testing.T) {
	elapsed := time.Duration(0)
	s, err := Open("db", Options{FS: vfs.NewMem(), Elapsed: func() time.Duration { elapsed++; return elapsed }})
	if err != nil {
		t.Fatal(err)
	}
	w := newStepper(t, s)
	before := s.Usage()
	if err := w.commit(s); err != nil {
		t.Fatal(err)
	}
	after := s.Usage()
	if after.LogBytes-before.LogBytes < 1000 || after.LogBusy < before.LogBusy+2 || after.Syncs != before.Syncs+1 || after.TableBytes != before.TableBytes {
		t.Errorf("a commit uses %+v, before it was %+v", after, before)
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if flushed := s.Usage(); flushed.TableBytes < after.TableBytes+1000 {
		t.Errorf("a flush uses %+v, before it was %+v", flushed, after)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if u := s.Usage(); u != (Usage{}) {
		t.Errorf("a closed store uses %+v", u)
	}
}
