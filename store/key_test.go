package store

import (
	"bytes"
	"testing"
)

// FuzzKeys parses any bytes as keys: a parsed key is encoded to the same bytes, and nothing panics.
func FuzzKeys(f *testing.F) {
	run := RunKey{Namespace: 7, ID: "order-42"}
	f.Add(RunTableKey(run, TableState))
	f.Add(WakeIndexKey(5, WakeKey{UnixMs: 1_800_000_000_000, Key: run}))
	f.Add(WakeIndexKey(5, WakeKey{UnixMs: 1_800_000_000_000, Key: RunKey{ID: "order-42"}}))
	f.Add(JournalKey(run, 3, 9))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, k []byte) {
		if r, err := ParseRunTableKey(k); err == nil && !bytes.Equal(RunTableKey(r, k[prefixBytes-1])[prefixBytes-1:], k[prefixBytes-1:]) {
			t.Fatalf("%x is read as run %+v", k, r)
		}
		if w, err := ParseWakeIndexKey(k); err == nil && !bytes.Equal(WakeIndexKey(0, w)[prefixBytes:], k[prefixBytes:]) {
			t.Fatalf("%x is read as wake %+v", k, w)
		}
		if end := PrefixEnd(k); end != nil && bytes.Compare(end, k) <= 0 {
			t.Fatalf("the end of prefix %x is %x", k, end)
		}
	})
}
