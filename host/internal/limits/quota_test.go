package limits

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// begun is an instant.
var begun = time.Unix(1_000_000, 0)

// refused checks that a start is refused with a sentence.
func refused(t *testing.T, q *Quotas, ns store.NamespaceID, now time.Time, sentence string) {
	t.Helper()
	_, err := q.Start(ns, now)
	if e, ok := errors.AsType[*abi.Error](err); !ok || e.Code != abi.Limit || e.Kind != QuotaKind || !strings.Contains(e.Message, sentence) {
		t.Errorf("got %v, want %q", err, sentence)
	}
}

func quotaStart(t *testing.T, q *Quotas, ns store.NamespaceID, now time.Time) (done func()) {
	t.Helper()
	done, err := q.Start(ns, now)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func TestRunsAndBytes(t *testing.T) {
	used := map[store.NamespaceID]store.Usage{1: {Runs: 1}}
	broken := errors.New("broken")
	q := NewQuotas(store.Quota{Runs: 2}, []store.Quota{{Namespace: 2, Bytes: 10}}, func(ns store.NamespaceID) (store.Usage, error) {
		if ns == 9 {
			return store.Usage{}, broken
		}
		return used[ns], nil
	})
	done := quotaStart(t, q, 1, begun)
	refused(t, q, 1, begun, "2 runs of the namespace have not ended, its quota is 2")
	quotaStart(t, q, 3, begun)
	done()
	done() // legal, and of no effect
	used[1] = store.Usage{Runs: 2}
	refused(t, q, 1, begun, "2 runs of the namespace")
	used[1] = store.Usage{Runs: 1}
	quotaStart(t, q, 1, begun)()
	if len(q.starting) != 1 {
		t.Error(q.starting)
	}
	used[2] = store.Usage{Runs: 100, Bytes: 9}
	quotaStart(t, q, 2, begun)()
	used[2] = store.Usage{Bytes: 10}
	refused(t, q, 2, begun, "the runs of the namespace hold 10 bytes, its quota is 10")
	q.Set(store.Quota{Namespace: 2})
	if got := q.Of(2); got != (store.Quota{Namespace: 2, Runs: 2}) {
		t.Error(got)
	}
	quotaStart(t, q, 2, begun)()
	if _, err := q.Start(9, begun); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestStarts(t *testing.T) {
	q := NewQuotas(store.Quota{}, nil, nil)
	q.Set(store.Quota{Namespace: 1, Starts: 2})
	const sentence = "the namespace starts more than 2 runs a second, its quota"
	now := begun
	for range 3 {
		quotaStart(t, q, 1, now)
		quotaStart(t, q, 1, now)
		refused(t, q, 1, now, sentence)
		quotaStart(t, q, 2, now)
		now = now.Add(499 * time.Millisecond)
		refused(t, q, 1, now, sentence)
		now = now.Add(-time.Hour) // the clock is set back
		refused(t, q, 1, now, sentence)
		now = now.Add(time.Minute) // no more than two are saved
	}
	for range 10 {
		q.Continued(1, now)
		q.Continued(2, now)
	}
	refused(t, q, 1, now, sentence)
	now = now.Add(time.Second)
	quotaStart(t, q, 1, now)
	refused(t, q, 1, now, sentence)
	q.Set(store.Quota{Namespace: 1, Starts: 1})
	quotaStart(t, q, 1, now)
	refused(t, q, 1, now, "more than 1 runs")
}

func TestInstances(t *testing.T) {
	q := NewQuotas(store.Quota{Instances: 1}, []store.Quota{{Namespace: 1, Instances: 2}, {Namespace: 2, Runs: 5}}, nil)
	for ns, most := range map[uint32]int{0: 1, 1: 2} {
		for range most {
			if q.Full(ns) {
				t.Errorf("namespace %d is full", ns)
			}
			q.Add(ns, 1)
		}
		if !q.Full(ns) || q.Computing(store.NamespaceID(ns)) != most {
			t.Errorf("namespace %d is not full", ns)
		}
	}
	q.Add(2, 1000)
	if q.Full(2) {
		t.Error("there is no limit")
	}
	q.Set(store.Quota{Namespace: 1})
	q.Add(1, -1)
	if !q.Full(1) {
		t.Error("the limit of others does not hold")
	}
	q.Add(1, -1)
	if q.Full(1) || q.Computing(1) != 0 {
		t.Error("it is full")
	}
}

// TestReplaceQuotas replaces all quotas by those that another host has set: what is as before keeps its rate.
func TestReplaceQuotas(t *testing.T) {
	now := time.UnixMilli(0)
	used := func(store.NamespaceID) (store.Usage, error) { return store.Usage{}, nil }
	q := NewQuotas(store.Quota{}, []store.Quota{{Namespace: 1, Starts: 1}, {Namespace: 2, Starts: 1}, {Namespace: 3, Starts: 1}}, used)
	start := func(ns store.NamespaceID) bool {
		done, err := q.Start(ns, now)
		if err == nil {
			done()
		}
		return err == nil
	}
	for ns := range store.NamespaceID(3) {
		if !start(ns+1) || start(ns+1) {
			t.Fatalf("namespace %d: one start a second is allowed", ns+1)
		}
	}
	q.Replace([]store.Quota{{Namespace: 1, Starts: 1}, {Namespace: 2, Starts: 2}, {Namespace: 4, Runs: 5}})
	if start(1) {
		t.Error("a quota that is as before has begun anew")
	}
	if !start(2) || !start(2) || start(2) {
		t.Error("the new quota does not hold")
	}
	if !start(3) || !start(3) || q.Of(3) != (store.Quota{Namespace: 3}) {
		t.Error("a quota that is gone holds")
	}
	if q.Of(4).Runs != 5 {
		t.Errorf("%+v", q.Of(4))
	}
}
