package store

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	// DefaultPage is the limit of a page if Limit is 0: a few screens.
	DefaultPage = 100
	// MaxPage bounds the runs of a page, whose states are in memory at once, each of some hundred bytes and up to 64
	// attributes.
	MaxPage = 1000
	// MaxPageBytes ends a page: once it holds MaxPageBytes it takes no more runs, and the next page continues behind
	// it. A thousand runs without large attributes fit. A thousand runs with all allowed attributes would take 80 MB,
	// and as many schedules 256 MB.
	MaxPageBytes = 1 << 20
	// MaxLooks bounds the index entries that are looked at for one page, and so the states that are read for it. A
	// filter that selects few of them gives a short page instead of a slow one. It is above MaxPage, so that it never
	// shortens a page without a filter.
	MaxLooks = 2000
)

// Position is a place in a list: the time by which the list is ordered, in Unix milliseconds, and the id of a run,
// which need not exist.
type Position struct {
	UnixMs int64
	ID     string
}

// Compare returns -1, 0 or 1 if p is before, at or after o in ascending order.
func (p Position) Compare(o Position) int {
	return cmp.Or(cmp.Compare(p.UnixMs, o.UnixMs), cmp.Compare(p.ID, o.ID))
}

// String returns the position as text for ParsePosition: 1767225600000.order-17.
func (p Position) String() string { return strconv.FormatInt(p.UnixMs, 10) + "." + p.ID }

// ParsePosition reads what String returns.
func ParsePosition(text string) (Position, error) {
	ms, id, ok := strings.Cut(text, ".")
	at, err := strconv.ParseInt(ms, 10, 64)
	if !ok || err != nil {
		return Position{}, fmt.Errorf("cursor must be milliseconds, a dot and a run id, as the page before returned it, got %q", text)
	}
	return Position{at, id}, nil
}

// Query selects runs of a namespace, and a page of them. The zero value selects the newest runs of the default namespace.
type Query struct {
	Namespace NamespaceID
	Workflow  string   // "" = any
	Statuses  []Status // empty = any
	// Attributes are the attributes that a run must have, all of them.
	Attributes []Attribute
	// Ranges must all match a run's attributes. No index has them: each run that the other filters select is looked at.
	Ranges []Range
	// CreatedFrom and CreatedBefore bound the creation in Unix milliseconds: at or after CreatedFrom, before
	// CreatedBefore. nil = no bound.
	CreatedFrom, CreatedBefore *int64
	Oldest                     bool      // the oldest first, instead of the newest
	After                      *Position // the page begins after it; nil = at the first run
	Limit                      int       // of the page; 0 = DefaultPage; more than MaxPage counts as MaxPage
}

// Page is a part of a list.
type Page struct {
	Runs []RunState
	// Next is where the next page begins, nil at the end of the list. A page may have fewer runs than its limit, or
	// none, and still have a Next: see MaxLooks and MaxPageBytes.
	Next *Position
}

// stateBytes is the approximate size of a state without its texts.
const stateBytes = 512

// Bytes returns the approximate size of a state in memory.
func (x *RunState) Bytes() int {
	n := stateBytes + len(x.Run.ID) + len(x.Workflow) + len(x.Reason) + len(x.Memo) + len(x.TraceParent) + len(x.Parent) +
		len(x.Schedule) + len(x.Import) + 8*len(x.Suspension.Awaited)
	for i := range x.Attributes {
		n += len(x.Attributes[i].Key) + len(x.Attributes[i].Value)
	}
	return n
}

// Unreadable returns the state that a list shows for a run whose record is damaged, with the error in its Reason: a run
// that needs a person. The list's filters do not apply to it.
func Unreadable(run RunKey, at Position, err error) RunState {
	return RunState{Run: run, Status: Stuck, Reason: "its record cannot be read: " + err.Error(), CreatedUnixMs: at.UnixMs,
		WakeUnixMs: NoWake}
}

// Fitting returns how many items of a list go into one page: it ends with the item that makes it hold MaxPageBytes.
func Fitting[T any](list []T, size func(*T) int) int {
	held := 0
	for i := range list {
		held += size(&list[i])
		if held >= MaxPageBytes {
			return i + 1
		}
	}
	return len(list)
}

// PageLimit returns the most runs that a page may have for a requested limit.
func PageLimit(limit int) int { return min(cmp.Or(max(limit, 0), DefaultPage), MaxPage) }

// Matches reports whether the query selects the run. It ignores After and Limit.
func (q *Query) Matches(s *RunState) bool {
	return !s.Deleted && s.Run.Namespace == q.Namespace && (q.Workflow == "" || s.Workflow == q.Workflow) &&
		(len(q.Statuses) == 0 || slices.Contains(q.Statuses, s.Status)) &&
		(q.CreatedFrom == nil || s.CreatedUnixMs >= *q.CreatedFrom) &&
		(q.CreatedBefore == nil || s.CreatedUnixMs < *q.CreatedBefore) &&
		!slices.ContainsFunc(q.Attributes, func(a Attribute) bool { return !slices.Contains(s.Attributes, a) }) &&
		!slices.ContainsFunc(q.Ranges, func(r Range) bool { return !r.Matches(s.Attributes) })
}

// Distinct returns each status of a list once. A request may repeat statuses as often as its length allows, and listing
// has a cost per status for each kind of runs and each run.
func Distinct(statuses []Status) (once []Status) {
	var seen [math.MaxUint8 + 1]bool
	for _, s := range statuses {
		if !seen[s] {
			seen[s] = true
			once = append(once, s)
		}
	}
	return once
}

// Beyond reports whether a position is after q.After in the order of the query.
func (q *Query) Beyond(p Position) bool {
	if q.After == nil {
		return true
	}
	c := p.Compare(*q.After)
	return c > 0 && q.Oldest || c < 0 && !q.Oldest
}

// TimerQuery selects runs of a namespace that sleep or wait with a deadline, soonest first.
type TimerQuery struct {
	Namespace NamespaceID
	UntilMs   int64     // deadlines up to this instant, in Unix milliseconds
	After     *Position // by deadline; nil = at the first run
	Limit     int       // as in Query
}

// Matches reports whether the run waits for a deadline that the query selects.
func (q *TimerQuery) Matches(s *RunState) bool {
	return !s.Deleted && s.Run.Namespace == q.Namespace && (s.Status == Sleeping || s.Status == Waiting) &&
		s.WakeUnixMs != NoWake && s.WakeUnixMs <= q.UntilMs
}

// Tally holds a number of runs per status, indexed by the status.
type Tally [Terminated + 1]int64

// Add adds n runs of a status.
func (t *Tally) Add(s Status, n int64) {
	if int(s) < len(t) {
		t[s] += n
	}
}

// Sum adds another tally.
func (t *Tally) Sum(o *Tally) {
	for i := range t {
		t[i] += o[i]
	}
}

// Total returns the number of runs.
func (t *Tally) Total() (n int64) {
	for _, k := range t {
		n += k
	}
	return n
}

// Of returns the number of runs that have one of the statuses, or of all runs if the list is empty.
func (t *Tally) Of(statuses []Status) (n int64) {
	if len(statuses) == 0 {
		return t.Total()
	}
	for s, k := range t {
		if slices.Contains(statuses, Status(s)) {
			n += k
		}
	}
	return n
}

// Live returns the number of runs that have not ended.
func (t *Tally) Live() (n int64) {
	for s, k := range t {
		if !Status(s).Terminal() {
			n += k
		}
	}
	return n
}

// Count is the number of runs of one version of a workflow, by status. Deleted runs are not counted.
type Count struct {
	Workflow string
	Version  uint32
	Runs     Tally
}

// CompareCounts orders counts by workflow and version.
func CompareCounts(a, b Count) int {
	return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Version, b.Version))
}

// Lister lists runs. A Store is one.
type Lister interface {
	List(ctx context.Context, q Query) (Page, error)
}

// Runs iterates over all runs of a query, page by page, at most limit of them; 0 = no limit. q.Limit is the size of a
// page. A run that matches throughout occurs once. A run that starts or stops matching meanwhile may occur or not.
func Runs(ctx context.Context, s Lister, q Query, limit int) iter.Seq2[RunState, error] {
	return func(yield func(RunState, error) bool) {
		for n := 0; ; {
			if err := ctx.Err(); err != nil {
				yield(RunState{}, err)
				return
			}
			page, err := s.List(ctx, q)
			if err != nil {
				yield(RunState{}, err)
				return
			}
			for i := range page.Runs {
				if limit > 0 && n == limit || !yield(page.Runs[i], nil) {
					return
				}
				n++
			}
			if page.Next == nil || limit > 0 && n == limit {
				return
			}
			q.After = page.Next
		}
	}
}
