package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// The retentions of a namespace, their ages, and all retentions are bounded. An existing one can be changed within
// the bounds, and a store that exceeds them can still remove some.
func TestRetentionLimits(t *testing.T) {
	var list []store.Retention
	for i := range store.MaxRetentionsOfOne {
		list = append(list, store.Retention{Namespace: 1, Workflow: fmt.Sprint("w", i), CompletedMs: int64(i%store.MaxRetentionAges) + 1})
	}
	refused := func(set store.Retention, says string) {
		t.Helper()
		if err := store.CheckRetentions(list, &set); !errors.Is(err, store.ErrTooLarge) || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v", set, err)
		}
	}
	taken := func(set store.Retention) {
		t.Helper()
		if err := store.CheckRetentions(list, &set); err != nil {
			t.Errorf("%+v: %v", set, err)
		}
	}
	refused(store.Retention{Namespace: 1, Workflow: "more", Keep: 1}, "the namespace has 500 retentions")
	taken(store.Retention{Namespace: 2, Workflow: "more", FailedMs: 99})
	taken(store.Retention{Namespace: 1, Workflow: "w3", FailedMs: 7})
	refused(store.Retention{Namespace: 1, Workflow: "w3", FailedMs: 99}, "33 different ages")
	list = list[:10]
	taken(store.Retention{Namespace: 1, Workflow: "more", FailedMs: 99, CompletedMs: 98})
	for i := range store.MaxRetentions - 10 {
		list = append(list, store.Retention{Namespace: store.NamespaceID(i + 10), Workflow: "w", Keep: 1})
	}
	refused(store.Retention{Namespace: 2, Workflow: "w", Keep: 1}, "the store has 10000 retentions")
	taken(store.Retention{Namespace: 10, Workflow: "w", Keep: 2})
}
