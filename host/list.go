package host

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// MaxPage is the maximum number of runs or timers on a page.
const MaxPage = store.MaxPage

// MaxPageBytes roughly bounds the memory of a page: a page that reaches it ends, even below its limit.
const MaxPageBytes = store.MaxPageBytes

// Order is the order of a list of runs. The zero value is NewestFirst.
type Order uint8

// The orders: by creation in milliseconds, and by id within a millisecond.
const (
	NewestFirst Order = 0
	OldestFirst Order = 1
)

// ParseOrder reads newest or oldest; empty text is NewestFirst.
func ParseOrder(text string) (Order, error) {
	switch text {
	case "", "newest":
		return NewestFirst, nil
	case "oldest":
		return OldestFirst, nil
	}
	return 0, &joined{fmt.Errorf("order must be newest or oldest, got %q", text), ErrInvalid}
}

// Query selects the runs that pass all of its filters. The zero value selects all runs, newest first.
type Query struct {
	Workflow string   // "" = any
	Status   Status   // zero = any
	Statuses []Status // any of these; Status, if set, is added
	// Attributes that a run must have, all of them.
	Attributes map[string]string
	// Where are conditions that a run must meet, all of them: at most MaxConditions. Equality is looked up like
	// Attributes. No index is ordered by value, so other comparisons read each run that passes the other filters.
	Where []Condition
	// CreatedFrom (inclusive) and CreatedBefore (exclusive) bound the creation. Zero = no bound.
	CreatedFrom, CreatedBefore time.Time
	Order                      Order
	Cursor                     string // Next of the previous page; "" = from the first run
	// Limit is the maximum number of runs. 0 = no limit for Runs, 100 for RunPage, which has at most MaxPage.
	Limit int
}

// of converts the query for the store.
func (q *Query) of(ns store.NamespaceID) (store.Query, error) {
	sq := store.Query{Namespace: ns, Workflow: q.Workflow, Statuses: q.Statuses, Oldest: q.Order == OldestFirst,
		CreatedFrom: msFrom(q.CreatedFrom), CreatedBefore: msFrom(q.CreatedBefore)}
	if q.Status != 0 {
		sq.Statuses = append(slices.Clip(sq.Statuses), q.Status)
	}
	for k, v := range q.Attributes {
		sq.Attributes = append(sq.Attributes, store.Attribute{Key: k, Value: v})
	}
	if len(q.Where) > MaxConditions {
		return sq, &joined{fmt.Errorf("%d conditions, the limit is %d", len(q.Where), MaxConditions), ErrInvalid}
	}
	for i := range q.Where {
		if err := q.Where[i].into(&sq); err != nil {
			return sq, err
		}
	}
	slices.SortFunc(sq.Attributes, func(a, b store.Attribute) int { // the first one is looked up in the index: long values are rarer
		return cmp.Or(cmp.Compare(len(b.Value), len(a.Value)), cmp.Compare(a.Key, b.Key))
	})
	if q.Limit < 0 {
		return sq, &joined{fmt.Errorf("limit must not be negative, got %d", q.Limit), ErrInvalid}
	}
	if q.Order > OldestFirst {
		return sq, &joined{fmt.Errorf("order must be NewestFirst or OldestFirst, got %d", q.Order), ErrInvalid}
	}
	var err error
	sq.After, err = cursor(q.Cursor)
	return sq, err
}

// msFrom rounds an instant up to milliseconds; nil for the zero instant.
func msFrom(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return &ms
}

func cursor(text string) (*store.Position, error) {
	if text == "" {
		return nil, nil
	}
	at, err := store.ParsePosition(text)
	if err != nil {
		return nil, &joined{err, ErrInvalid}
	}
	return &at, nil
}

// next returns the cursor of the next page, "" at the end of the list.
func next(page *store.Page) string {
	if page.Next == nil {
		return ""
	}
	return page.Next.String()
}

// pageLimit returns ErrInvalid for a limit out of range.
func pageLimit(limit int) error {
	if limit < 0 || limit > MaxPage {
		return &joined{fmt.Errorf("limit of a page must be from 0 to %d, got %d", MaxPage, limit), ErrInvalid}
	}
	return nil
}

// Runs yields runs in their durable state. It reads a page at a time, when the previous one is used up. A run that
// exists throughout occurs once. A run that starts or stops matching meanwhile may occur or not.
func (s *scope) Runs(ctx context.Context, q Query) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		ns, err := s.id(ctx, false)
		var sq store.Query
		if err == nil {
			sq, err = q.of(ns)
		}
		if err != nil {
			yield(Run{}, translate(err))
			return
		}
		sq.Limit = q.Limit
		for st, err := range store.Runs(ctx, s.h.store, sq, q.Limit) {
			if !yield(s.h.runOf(st), translate(err)) || err != nil {
				return
			}
		}
	}
}

// RunPage is a page of runs.
type RunPage struct {
	Runs []Run `json:"items"`
	// Next is the cursor of the next page, empty on the last.
	Next string `json:"next,omitempty"`
}

// RunPage returns a page of runs. Its cost depends on the page, not on the number of runs: it reads at most 2,000
// runs and ends at MaxPageBytes. So a page may be shorter than its limit, even empty, and still have a next page.
// ErrInvalid if the cursor is malformed, or the limit above MaxPage.
func (s *scope) RunPage(ctx context.Context, q Query) (RunPage, error) {
	p := RunPage{Runs: []Run{}}
	ns, err := s.id(ctx, false)
	if err != nil {
		return p, translate(err)
	}
	sq, err := q.of(ns)
	if err == nil {
		err = pageLimit(q.Limit)
	}
	if err != nil {
		return p, err
	}
	sq.Limit = q.Limit
	page, err := s.h.store.List(ctx, sq)
	if err != nil {
		return p, translate(err)
	}
	for i := range page.Runs {
		p.Runs = append(p.Runs, s.h.runOf(page.Runs[i]))
	}
	p.Next = next(&page)
	return p, nil
}

// RunCounts is the number of runs by status, with an item for each status.
type RunCounts map[Status]int64

// Total returns the number of runs.
func (c RunCounts) Total() (n int64) {
	for _, k := range c {
		n += k
	}
	return n
}

// Counts returns the number of runs of a workflow, or of the whole namespace if workflow is empty. The counts are
// maintained as runs change, so the call takes constant time. Deleted runs do not count.
func (s *scope) Counts(ctx context.Context, workflow string) (RunCounts, error) {
	ns, err := s.id(ctx, false)
	if err != nil {
		return nil, translate(err)
	}
	counts, err := s.h.store.Counts(ctx, ns)
	if err != nil {
		return nil, translate(err)
	}
	c := RunCounts{}
	for st := Queued; st <= Terminated; st++ {
		c[st] = 0
		for i := range counts {
			if workflow == "" || counts[i].Workflow == workflow {
				c[st] += counts[i].Runs[st]
			}
		}
	}
	return c, nil
}

// Timer is a sleep that a run waits for.
type Timer struct {
	RunID    string    `json:"run"`
	Workflow string    `json:"workflow"`
	Due      time.Time `json:"due"`
}

// TimerQuery selects timers up to an instant.
type TimerQuery struct {
	Until    time.Time // zero = all
	WithinMs int64     // from now, by the host's clock, instead of Until; 0 = all
	Cursor   string    // Next of the previous page; "" = from the first
	Limit    int       // 0 = 100; at most MaxPage
}

// TimerPage is a page of timers.
type TimerPage struct {
	Timers []Timer `json:"items"`
	// Next is the cursor of the next page, empty on the last.
	Next string `json:"next,omitempty"`
}

// TimerPage returns a page of the next wakes of sleeping and waiting runs of the namespace, soonest first. It is
// bounded like RunPage, so a page may be shorter than its limit.
func (s *scope) TimerPage(ctx context.Context, q TimerQuery) (TimerPage, error) {
	p := TimerPage{Timers: []Timer{}}
	ns, err := s.id(ctx, false)
	if err != nil {
		return p, translate(err)
	}
	sq := store.TimerQuery{Namespace: ns, UntilMs: math.MaxInt64, Limit: q.Limit}
	if q.WithinMs < 0 || q.WithinMs != 0 && !q.Until.IsZero() {
		return p, &joined{fmt.Errorf("timers are listed until an instant or within a positive time, got %v and %d ms", q.Until,
			q.WithinMs), ErrInvalid}
	}
	if now := s.h.cfg.Clock.Now().UnixMilli(); q.WithinMs > 0 && q.WithinMs < abi.MaxUnixMs-now {
		sq.UntilMs = now + q.WithinMs
	}
	if !q.Until.IsZero() && q.Until.UnixMilli() < abi.MaxUnixMs { // later instants are shown as that one
		sq.UntilMs = q.Until.UnixMilli()
	}
	sq.After, err = cursor(q.Cursor)
	if err == nil {
		err = pageLimit(q.Limit)
	}
	if err != nil {
		return p, err
	}
	page, err := s.h.store.Timers(ctx, sq)
	if err != nil {
		return p, translate(err)
	}
	for i := range page.Runs {
		st := &page.Runs[i]
		p.Timers = append(p.Timers, Timer{RunID: st.Run.ID, Workflow: st.Workflow, Due: abi.TimeOf(st.WakeUnixMs)})
	}
	p.Next = next(&page)
	return p, nil
}

// Timers yields the next wakes of sleeping and waiting runs of the namespace up to an instant, soonest first; the
// zero instant means no bound. It reads pages, as Runs does.
func (s *scope) Timers(ctx context.Context, until time.Time) iter.Seq2[Timer, error] {
	return func(yield func(Timer, error) bool) {
		for q := (TimerQuery{Until: until}); ; {
			page, err := s.TimerPage(ctx, q)
			if err != nil {
				yield(Timer{}, err)
				return
			}
			for _, t := range page.Timers {
				if !yield(t, nil) {
					return
				}
			}
			q.Cursor = page.Next
			if q.Cursor == "" {
				return
			}
		}
	}
}
