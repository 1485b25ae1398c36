package store

import (
	"encoding/binary"
	"fmt"
)

// MaxQuotas bounds the quotas of a store: a host holds all of them in memory, at some hundred bytes each.
const MaxQuotas = 100_000

// MaxNamespaces bounds the namespaces of a store, not counting the default one. Namespaces are never deleted, an upload
// may create one, and a host holds the counts and names of all in memory, at some hundred bytes each.
const MaxNamespaces = 100_000

// storedUnit is the unit in which stored bytes are counted, like the blocks of file systems. A commit that adds less
// need not change the counts on disk. With exact numbers, each commit would write one more key.
const storedUnit = 4096

// Quota limits what a namespace may use. 0 = no limit.
type Quota struct {
	Namespace NamespaceID
	Runs      int64 // that have not ended
	Bytes     int64 // of runs, as RunState.UsageBytes counts them
	Instances int64 // guests that compute at a time
	Starts    int64 // a second
	Requests  int64 // a second
	Schedules int64
	Wakes     int64 // a second
	Versions  int64
	Written   int64 // bytes a second
}

// None reports whether the quota limits nothing.
func (q *Quota) None() bool { return *q == Quota{Namespace: q.Namespace} }

// CheckQuotas returns ErrTooLarge if a store that has n quotas cannot take another one.
func CheckQuotas(n int) error {
	if n >= MaxQuotas {
		return fmt.Errorf("%w: the store has %d quotas, which is the limit", ErrTooLarge, n)
	}
	return nil
}

// CheckNamespaces returns ErrTooLarge if a store that has n namespaces besides the default one cannot take another one.
func CheckNamespaces(n int) error {
	if n >= MaxNamespaces {
		return fmt.Errorf("%w: the store has %d namespaces beside the default one, which is the limit; they are never deleted",
			ErrTooLarge, n)
	}
	return nil
}

// Usage is the usage of a namespace.
type Usage struct {
	Runs  int64 // that have not ended
	Bytes int64 // of all runs: the sum of RunState.UsageBytes
}

// UsageBytes returns the bytes that a run counts for: its entries of all iterations, output and log lines, before
// compression, rounded up to 4 KiB. A deleted run counts for nothing.
func (s *RunState) UsageBytes() int64 {
	if s.Deleted {
		return 0
	}
	n := max(s.StoredBytes, s.JournalBytes) // releases of format 3 and before stored JournalBytes only
	return (n + storedUnit - 1) / storedUnit * storedUnit
}

// Counted holds the counts of the runs of a version.
type Counted struct {
	Tally
	Bytes int64 // the sum of RunState.UsageBytes
}

// Sum adds other counts.
func (c *Counted) Sum(o *Counted) {
	c.Tally.Sum(&o.Tally)
	c.Bytes += o.Bytes
}

// tagCountedBytes is the field number of Counted.Bytes. Lower numbers are statuses.
const tagCountedBytes = 32

// AppendCounted encodes counts. The field number of a count is its status.
func AppendCounted(dst []byte, x *Counted) []byte {
	e, from := newRecord(dst)
	for s, n := range x.Tally {
		e.int(byte(s), n)
	}
	e.int(tagCountedBytes, x.Bytes)
	return e.seal(from)
}

// DecodeCounted decodes what AppendCounted made.
func DecodeCounted(b []byte) (x Counted, err error) {
	err = decode("counts", b, func(f field) bool {
		switch {
		case f.tag == tagCountedBytes:
			x.Bytes = f.int()
		case int(f.tag) < len(x.Tally):
			x.Tally[f.tag] = f.int()
		default:
			return false
		}
		return true
	})
	return x, err
}

// AppendQuota encodes a quota.
func AppendQuota(dst []byte, x *Quota) []byte {
	e, from := newRecord(dst)
	e.uint(1, uint64(x.Namespace))
	e.int(2, x.Runs)
	e.int(3, x.Bytes)
	e.int(4, x.Instances)
	e.int(5, x.Starts)
	e.int(6, x.Requests)
	e.int(7, x.Schedules)
	e.int(8, x.Wakes)
	e.int(9, x.Versions)
	e.int(10, x.Written)
	return e.seal(from)
}

// DecodeQuota decodes what AppendQuota made.
func DecodeQuota(b []byte) (x Quota, err error) {
	err = decode("quota", b, func(f field) bool {
		switch f.tag {
		case 1:
			x.Namespace = NamespaceID(small(f.num))
		case 2:
			x.Runs = f.int()
		case 3:
			x.Bytes = f.int()
		case 4:
			x.Instances = f.int()
		case 5:
			x.Starts = f.int()
		case 6:
			x.Requests = f.int()
		case 7:
			x.Schedules = f.int()
		case 8:
			x.Wakes = f.int()
		case 9:
			x.Versions = f.int()
		case 10:
			x.Written = f.int()
		default:
			return false
		}
		return true
	})
	return x, err
}

// QuotaKey returns the key of a quota. The keys of all namespaces are under namespace 0, so that one scan reads them.
func QuotaKey(ns NamespaceID) []byte {
	return binary.BigEndian.AppendUint32(GlobalKey(0, TableQuota, nil), uint32(ns))
}
