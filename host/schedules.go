package host

import (
	"context"
	"fmt"

	"github.com/wfhost/wfhost/store"
)

// SchedulePage is a page of schedules.
type SchedulePage struct {
	Schedules []Schedule `json:"items"`
	// Next is the cursor of the next page, the last id of this one; empty on the last page.
	Next string `json:"next,omitempty"`
}

// Page returns a page of the schedules of the namespace, sorted by id, that follow the id after. limit is 1
// to MaxSchedules. A page ends at MaxPageBytes, so it may be shorter than its limit and still have a next page.
func (s Schedules) Page(ctx context.Context, after string, limit int) (SchedulePage, error) {
	p := SchedulePage{Schedules: []Schedule{}}
	if limit < 1 || limit > MaxSchedules {
		return p, &joined{fmt.Errorf("limit must be from 1 to %d, got %d", MaxSchedules, limit), ErrInvalid}
	}
	ns, err := s.id(ctx, false)
	if err != nil {
		return p, translate(err)
	}
	page, err := s.h.keeper.List(ctx, ns, after, limit)
	for _, x := range page {
		p.Schedules = append(p.Schedules, s.h.scheduleOf(x))
	}
	if err != nil || len(page) == 0 {
		return p, translate(err)
	}
	last := p.Schedules[len(page)-1].ID
	more, err := s.h.store.Schedules(ctx, store.ScheduleQuery{Namespace: ns, After: last, Limit: 1})
	if len(more) > 0 {
		p.Next = last
	}
	return p, translate(err)
}

// List returns the schedules of the namespace, sorted by id, that follow the id after, at most limit of them.
// limit is 1 to MaxSchedules. If it returns fewer, there are no more. Each takes up to 256 KiB, and all are in memory
// at once: Schedules.Page bounds that.
func (s Schedules) List(ctx context.Context, after string, limit int) ([]Schedule, error) {
	p, err := s.Page(ctx, after, limit)
	list := p.Schedules
	for err == nil && p.Next != "" && len(list) < limit {
		p, err = s.Page(ctx, p.Next, limit-len(list))
		list = append(list, p.Schedules...)
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}
