package store

import (
	"cmp"
	"encoding/binary"
	"fmt"
)

// Bounds of retentions.
const (
	// MaxRetentions bounds the retentions of a store, which each sweep reads.
	MaxRetentions = 10_000
	// MaxRetentionsOfOne bounds the retentions of one namespace, so that it cannot use up the store's bound.
	MaxRetentionsOfOne = 500
	// MaxRetentionAges bounds the different ages of one namespace: a sweep walks over the ended runs once for each age.
	MaxRetentionAges = 32
)

// Retention says how long the ended runs of a workflow are kept. Each bound that is not 0 applies: a run is deleted as
// soon as it exceeds one of them.
type Retention struct {
	Namespace NamespaceID
	Workflow  string // "" = all workflows of the namespace that have no retention of their own
	// How long a run is kept after its end, in milliseconds, by its final status. 0 = forever.
	CompletedMs, FailedMs, CancelledMs, TerminatedMs int64
	// Keep is how many ended runs of the workflow are kept, whatever their status: the runs that were created last. 0 =
	// any number.
	Keep int64
	// KeepCompleted and the next three are like Keep, each for one final status, so that many runs of one status do not push
	// out those of another.
	KeepCompleted, KeepFailed, KeepCancelled, KeepTerminated int64
	// KeepIterations is how many iterations before the current one keep their journals. 0 = DefaultIterations, -1 = all.
	KeepIterations int64
	// IterationsMs is how long an iteration keeps its journal after its end, in milliseconds. 0 = forever.
	IterationsMs int64
	// IDsMs is how long the ids of deleted runs stay taken, in milliseconds, 0 = DefaultIDsMs. It is a field of the
	// retention without a workflow, and applies to the whole namespace.
	IDsMs int64
}

// DefaultIterations is how many iterations before the current one keep their journals, if no retention says otherwise.
const DefaultIterations = 10

// DefaultIDsMs is how long the id of a deleted run stays taken by default. Starts that are repeated by mistake come
// earlier.
const DefaultIDsMs = 30 * 24 * 3600 * 1000

// IDs returns how long the ids of deleted runs stay taken, in milliseconds.
func (r *Retention) IDs() int64 { return cmp.Or(r.IDsMs, DefaultIDsMs) }

// AgeMs returns how long a run with a final status is kept, 0 for no bound. It is 0 for a status that is not final.
func (r *Retention) AgeMs(s Status) int64 {
	switch s {
	case Completed:
		return r.CompletedMs
	case Failed:
		return r.FailedMs
	case Cancelled:
		return r.CancelledMs
	case Terminated:
		return r.TerminatedMs
	}
	return 0
}

// KeepOf returns how many ended runs with a status are kept, 0 for any number.
func (r *Retention) KeepOf(s Status) int64 {
	switch s {
	case Completed:
		return r.KeepCompleted
	case Failed:
		return r.KeepFailed
	case Cancelled:
		return r.KeepCancelled
	case Terminated:
		return r.KeepTerminated
	}
	return 0
}

// None reports whether the retention has no bounds.
func (r *Retention) None() bool {
	return *r == Retention{Namespace: r.Namespace, Workflow: r.Workflow}
}

// CheckRetentions returns ErrTooLarge if a store with a list of retentions cannot add set, or replace the retention of
// its workflow by set.
func CheckRetentions(list []Retention, set *Retention) error {
	all, own, ages := 1, 1, map[int64]bool{}
	count := func(x *Retention) {
		for _, age := range []int64{x.CompletedMs, x.FailedMs, x.CancelledMs, x.TerminatedMs} {
			if age > 0 {
				ages[age] = true
			}
		}
	}
	count(set)
	for i := range list {
		x := &list[i]
		if x.Namespace == set.Namespace && x.Workflow == set.Workflow {
			continue
		}
		all++
		if x.Namespace == set.Namespace {
			own++
			count(x)
		}
	}
	switch {
	case own > MaxRetentionsOfOne:
		return fmt.Errorf("%w: the namespace has %d retentions, the limit; one without a workflow is for all that have none",
			ErrTooLarge, own-1)
	case all > MaxRetentions:
		return fmt.Errorf("%w: the store has %d retentions, the limit", ErrTooLarge, all-1)
	case len(ages) > MaxRetentionAges:
		return fmt.Errorf("%w: the retentions of the namespace would have %d different ages, the limit is %d: use one that is there",
			ErrTooLarge, len(ages), MaxRetentionAges)
	}
	return nil
}

// EndedQuery selects ended runs of one namespace and partition by the instant of their end, earliest first.
type EndedQuery struct {
	Namespace NamespaceID
	Partition PartitionID
	// Deleted selects the remaining records of deleted runs, by the instant of their deletion, instead of ended runs.
	Deleted bool
	After   Position // the result begins after it; the zero Position is before all
	UntilMs int64    // up to this instant, in Unix milliseconds
	Limit   int
}

// AppendRetention encodes a retention.
func AppendRetention(dst []byte, x *Retention) []byte {
	e, from := newRecord(dst)
	e.uint(1, uint64(x.Namespace))
	e.string(2, x.Workflow)
	e.int(3, x.CompletedMs)
	e.int(4, x.FailedMs)
	e.int(5, x.CancelledMs)
	e.int(6, x.TerminatedMs)
	e.int(7, x.Keep)
	e.int(8, x.KeepCompleted)
	e.int(9, x.KeepFailed)
	e.int(10, x.KeepCancelled)
	e.int(11, x.KeepTerminated)
	e.int(12, x.KeepIterations)
	e.int(13, x.IterationsMs)
	e.int(14, x.IDsMs)
	return e.seal(from)
}

// DecodeRetention decodes what AppendRetention made.
func DecodeRetention(b []byte) (x Retention, err error) {
	err = decode("retention", b, func(f field) bool {
		switch f.tag {
		case 1:
			x.Namespace = NamespaceID(small(f.num))
		case 2:
			x.Workflow = string(f.b)
		case 3:
			x.CompletedMs = f.int()
		case 4:
			x.FailedMs = f.int()
		case 5:
			x.CancelledMs = f.int()
		case 6:
			x.TerminatedMs = f.int()
		case 7:
			x.Keep = f.int()
		case 8:
			x.KeepCompleted = f.int()
		case 9:
			x.KeepFailed = f.int()
		case 10:
			x.KeepCancelled = f.int()
		case 11:
			x.KeepTerminated = f.int()
		case 12:
			x.KeepIterations = f.int()
		case 13:
			x.IterationsMs = f.int()
		case 14:
			x.IDsMs = f.int()
		default:
			return false
		}
		return true
	})
	return x, err
}

// RetentionKey returns the key of a retention. The keys of all namespaces are under namespace 0, so that one scan reads
// them.
func RetentionKey(ns NamespaceID, workflow string) []byte {
	return append(binary.BigEndian.AppendUint32(GlobalKey(0, TableRetention, nil), uint32(ns)), workflow...)
}

// Range returns the bounds of the keys that the query selects: from lower on, up to but excluding upper.
func (q *EndedQuery) Range() (lower, upper []byte) {
	table := byte(TableEnded)
	if q.Deleted {
		table = TableDeleted
	}
	prefix := AppendPrefix(nil, q.Namespace, q.Partition, table)
	lower = append(binary.BigEndian.AppendUint64(prefix, uint64(max(q.After.UnixMs, 0))), q.After.ID...)
	if q.After.ID != "" {
		lower = append(lower, 0)
	}
	upper = AppendPrefix(nil, q.Namespace, q.Partition, table)
	return lower, binary.BigEndian.AppendUint64(upper, uint64(max(q.UntilMs, -1))+1)
}

// ParseEndedKey reads a key of the table of ended runs, or of the table of deleted runs.
func ParseEndedKey(k []byte) (Position, error) {
	if len(k) <= prefixBytes+8 {
		return Position{}, fmt.Errorf("%w: key of an ended run of %d bytes", ErrCorrupt, len(k))
	}
	return Position{int64(binary.BigEndian.Uint64(k[prefixBytes:])), string(k[prefixBytes+8:])}, nil
}
