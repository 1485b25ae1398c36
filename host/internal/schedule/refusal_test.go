package schedule

import (
	"errors"
	"testing"

	"github.com/wfhost/wfhost/store"
)

const minute = hour / 60

// TestRefusals names the given values: instants as they were written, and the id of the existing schedule.
func TestRefusals(t *testing.T) {
	h := newFake(t)
	h.k.Begin(h)
	create := func(id string, d Definition) error {
		_, err := h.k.Create(ctx, store.RunKey{Namespace: nightly.Namespace, ID: id}, d, "", false)
		return err
	}
	h.ok(create("there", Definition{Workflow: "w", When: "@every 1h"}))
	_, past := h.k.Backfill(ctx, nightly, hour-1, minute, false)
	for want, err := range map[string]error{
		`schedule "there" exists: update or delete it, or give the new one another id`: create("there", Definition{Workflow: "w", When: "@daily"}),
		`INVALID_ARGUMENT: "@every 1h" is never due after 1970-01-01T00:00:00Z, and until 1970-01-01T00:01:00Z`: create("short",
			Definition{Workflow: "w", When: "@every 1h", UntilMs: minute}),
		`INVALID_ARGUMENT: "1969-01-01T00:00:00Z" is never due after 1970-01-01T00:00:00Z`: create("past",
			Definition{Workflow: "w", When: "1969-01-01T00:00:00Z"}),
		`INVALID_ARGUMENT: the schedule ends at 1970-01-01T00:01:00Z, before it begins at 1970-01-01T01:00:00Z`: create("backwards",
			Definition{Workflow: "w", When: "@every 1h", FromMs: hour, UntilMs: minute}),
		`INVALID_ARGUMENT: a backfill is from an instant to a later one that has passed, got 1970-01-01T01:00:00Z to ` +
			`1970-01-01T00:01:00Z`: past,
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := create("there", Definition{Workflow: "w", When: "@daily"}); !errors.Is(err, store.ErrExists) {
		t.Error(err)
	}
}

// TestBackfillTooLong backfills a range of a hundred thousand instants, and refuses one more.
func TestBackfillTooLong(t *testing.T) {
	h := newFake(t)
	h.k.Begin(h)
	_, err := h.k.Create(ctx, nightly, Definition{Workflow: "w", When: "@every 1h"}, "", false)
	h.ok(err)
	h.now = (MaxFill + 1) * hour
	want := "INVALID_ARGUMENT: a backfill has at most 100000 instants, and from 1970-01-01T00:00:00.001Z to 1981-05-29T17:00:00Z " +
		"there are more: fill the range in parts, the first of them to 1981-05-29T16:00:00Z"
	if _, err := h.k.Backfill(ctx, nightly, 0, h.now, false); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	_, err = h.k.Backfill(ctx, nightly, 0, h.now-hour, false)
	h.ok(err)
}
