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

// MaxPage is how many runs or timers a page has at most.
const MaxPage = store.MaxPage

// MaxPageBytes ends a page: one that holds about so much in memory has nothing more, however many its limit allows.
const MaxPageBytes = store.MaxPageBytes

// Order is the order of a list of runs. The zero value is NewestFirst.
type Order uint8

// The orders: by the instant of creation in milliseconds, runs of one millisecond by id.
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

// Query selects the runs that pass all of its filters. The zero value selects all, from the newest.
type Query struct {
	Workflow string   // "" = any
	Status   Status   // zero = any
	Statuses []Status // any of these; with Status, that one as well
	// Attributes that a run must have, all of them.
	Attributes map[string]string
	// Where a run must be, all of them: at most MaxConditions. Equality is looked up as Attributes are; no index has
	// the order of values, so what compares them looks at each run that the other filters select.
	Where []Condition
	// CreatedFrom and CreatedBefore bound the creation: at or after the one, before the other. Zero = no bound.
	CreatedFrom, CreatedBefore time.Time
	Order                      Order
	Cursor                     string // Next of the page before; "" = from the first run
	// Limit is how many runs at most. 0 = no limit for Runs, 100 for RunPage, which has at most MaxPage.
	Limit int
}

// of returns the query for the store.
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
	slices.SortFunc(sq.Attributes, func(a, b store.Attribute) int { // the first one is looked up: a long value is rarer
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

// msFrom returns the first millisecond that is not before an instant, nil for the zero instant.
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

// next returns the cursor of a page, "" at the end of the list.
func next(page *store.Page) string {
	if page.Next == nil {
		return ""
	}
	return page.Next.String()
}

// pageLimit refuses a limit that no page has.
func pageLimit(limit int) error {
	if limit < 0 || limit > MaxPage {
		return &joined{fmt.Errorf("limit of a page must be from 0 to %d, got %d", MaxPage, limit), ErrInvalid}
	}
	return nil
}

// Runs walks over runs, as they are durable. It reads them in pages, each when the one before is used up: a run that is
// there throughout occurs once, and one that begins or ceases to fit meanwhile may occur or not.
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

// RunPage returns a page of runs. It takes about as long as the page is, however many runs there are: it looks at no
// more than 2,000 of them, and ends when it holds MaxPageBytes. So it may have fewer runs than its limit, or none, and yet a
// next one. ErrInvalid if the cursor is none, or the limit above MaxPage.
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

// RunCounts is how many runs there are of each status; all statuses are in it.
type RunCounts map[Status]int64

// Total returns the number of runs.
func (c RunCounts) Total() (n int64) {
	for _, k := range c {
		n += k
	}
	return n
}

// Counts returns how many runs the namespace has, of a workflow or, if that is empty, of all. They are counted as they
// change, so it takes the same time for any number of runs. Runs that were deleted do not count.
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
	WithinMs int64     // from now on, by the host's clock, in place of Until; 0 = all
	Cursor   string    // Next of the page before; "" = from the first
	Limit    int       // 0 = 100; at most MaxPage
}

// TimerPage is a page of timers.
type TimerPage struct {
	Timers []Timer `json:"items"`
	// Next is the cursor of the next page, empty on the last.
	Next string `json:"next,omitempty"`
}

// TimerPage returns a page of the next wakes of the runs of the namespace that sleep or wait, soonest first. Like
// RunPage it is bounded, and a page may be shorter than its limit.
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
	if !q.Until.IsZero() && q.Until.UnixMilli() < abi.MaxUnixMs { // later ones are shown as that instant
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

// Timers walks over the next wakes of the runs of the namespace that sleep or wait, up to an instant, soonest first;
// the zero instant means none. It reads them in pages, as Runs does.
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
