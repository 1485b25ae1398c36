package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// Retentions, quotas and counts survive a round trip, and damaged ones are reported.
func TestSmallRecords(t *testing.T) {
	keep := store.Retention{Namespace: 7, Workflow: "orders", CompletedMs: 1, FailedMs: 2, CancelledMs: 3, TerminatedMs: 4, Keep: 5,
		KeepCompleted: 6, KeepFailed: 7, KeepCancelled: 8, KeepTerminated: 9}
	quota := store.Quota{Namespace: math.MaxUint32, Runs: 1, Bytes: 2, Instances: 3, Starts: 4, Requests: 5, Schedules: 6, Wakes: 7, Versions: 8,
		Written: 9}
	counts := store.Counted{Bytes: 4096}
	counts.Tally[store.Sleeping] = 3
	for name, c := range map[string]struct {
		record []byte
		decode func([]byte) (any, error)
		want   any
	}{
		"retention": {store.AppendRetention(nil, &keep), func(b []byte) (any, error) { return store.DecodeRetention(b) }, keep},
		"quota":     {store.AppendQuota(nil, &quota), func(b []byte) (any, error) { return store.DecodeQuota(b) }, quota},
		"counts":    {store.AppendCounted(nil, &counts), func(b []byte) (any, error) { return store.DecodeCounted(b) }, counts},
	} {
		if got, err := c.decode(c.record); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
		for i := range c.record {
			damaged := bytes.Clone(c.record)
			damaged[i] ^= 1
			if _, err := c.decode(damaged); err == nil {
				t.Errorf("%s: nobody noticed that byte %d is another one", name, i)
			}
		}
	}
}

// A retention without numbers per status is encoded as before these existed, and such records can still be decoded.
func TestRetentionOfBefore(t *testing.T) {
	const before = "01020705066f7264657273060208040a060c080e0a" // version 1, fields 1 to 7, without the checksum
	want := store.Retention{Namespace: 7, Workflow: "orders", CompletedMs: 1, FailedMs: 2, CancelledMs: 3, TerminatedMs: 4, Keep: 5}
	record := store.AppendRetention(nil, &want)
	if got := fmt.Sprintf("%x", record[:len(record)-4]); got != before {
		t.Errorf("%s, want %s", got, before)
	}
	if got, err := store.DecodeRetention(record); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRetentionAges(t *testing.T) {
	r := store.Retention{CompletedMs: 1, FailedMs: 2, CancelledMs: 3, TerminatedMs: 4, KeepCompleted: 1, KeepFailed: 2, KeepCancelled: 3,
		KeepTerminated: 4}
	for status, want := range map[store.Status]int64{store.Completed: 1, store.Failed: 2, store.Cancelled: 3, store.Terminated: 4, store.Sleeping: 0} {
		if got := r.AgeMs(status); got != want || r.KeepOf(status) != want {
			t.Errorf("%s: %d and %d, want %d", status, got, r.KeepOf(status), want)
		}
	}
	if r.None() || !(&store.Retention{Namespace: 1, Workflow: "w"}).None() || (&store.Retention{Keep: 1}).None() ||
		(&store.Retention{KeepTerminated: 1}).None() {
		t.Error("what bounds something is said to bound nothing, or the other way round")
	}
	if (&store.Quota{Namespace: 1, Starts: 1}).None() || !(&store.Quota{Namespace: 1}).None() {
		t.Error("what limits something is said to limit nothing, or the other way round")
	}
	if store.CheckQuotas(store.MaxQuotas-1) != nil || !errors.Is(store.CheckQuotas(store.MaxQuotas), store.ErrTooLarge) {
		t.Error("the number of quotas is not bounded")
	}
}

// Held counts whole units, and nothing for a deleted run.
func TestHeld(t *testing.T) {
	for _, c := range []struct {
		state store.RunState
		want  int64
	}{{store.RunState{}, 0}, {store.RunState{StoredBytes: 1}, 4096}, {store.RunState{StoredBytes: 4096}, 4096}, {store.RunState{StoredBytes: 4097}, 8192},
		{store.RunState{JournalBytes: 5000}, 8192}, {store.RunState{StoredBytes: 5000, Deleted: true}, 0}} {
		if got := c.state.UsageBytes(); got != c.want {
			t.Errorf("%d bytes, want %d", got, c.want)
		}
	}
	a, b := store.Counted{Bytes: 1}, store.Counted{Bytes: 2}
	a.Tally[store.Failed], b.Tally[store.Failed] = 1, 2
	if a.Sum(&b); a.Bytes != 3 || a.Tally[store.Failed] != 3 {
		t.Errorf("%+v", a)
	}
}

// Keys of tables have the prefixes that queries use.
func TestKeysOfTables(t *testing.T) {
	run := store.RunKey{Namespace: 3, ID: "r"}
	digest := bytes.Repeat([]byte{9}, 32)
	if k := store.RefersKey(run, digest); !bytes.HasPrefix(k, store.RefersKey(run, nil)) || !bytes.HasSuffix(k, digest) {
		t.Errorf("%x", k)
	}
	if k := store.ReferredKey(digest, run); !bytes.HasPrefix(k, store.GlobalKey(0, store.TableReferred, digest)) || !bytes.HasSuffix(k, []byte("r")) {
		t.Errorf("%x", k)
	}
	if k := store.RetentionKey(3, "w"); !bytes.HasPrefix(k, store.GlobalKey(0, store.TableRetention, nil)) || !bytes.HasSuffix(k, []byte("w")) {
		t.Errorf("%x", k)
	}
	if k := store.QuotaKey(3); !bytes.HasPrefix(k, store.GlobalKey(0, store.TableQuota, nil)) {
		t.Errorf("%x", k)
	}
	if p := store.StatusTable(3, run.Partition(), store.Failed); p[len(p)-1] != byte(store.Failed) {
		t.Errorf("%x", p)
	}
	if store.TokenPartition(3, "r") != run.Partition() {
		t.Error("a token stands in another partition than a run of that name")
	}
	for deleted, key := range map[bool][]byte{false: store.EndedKey(run, 50), true: store.DeletedKey(run, 50)} {
		q := store.EndedQuery{Namespace: 3, Partition: run.Partition(), Deleted: deleted, UntilMs: 50}
		in := func(q store.EndedQuery) bool {
			lower, upper := q.Range()
			return bytes.Compare(key, lower) >= 0 && bytes.Compare(key, upper) < 0
		}
		if !in(q) {
			t.Errorf("%x is not in the range of %+v", key, q)
		}
		q.UntilMs = 49
		if in(q) {
			t.Errorf("%x is in the range of %+v", key, q)
		}
		q.UntilMs, q.After = 99, (store.Position{UnixMs: 50, ID: "r"})
		if in(q) {
			t.Errorf("%x is in the range of %+v", key, q)
		}
		if at, err := store.ParseEndedKey(key); err != nil || at != (store.Position{UnixMs: 50, ID: "r"}) {
			t.Errorf("%+v, %v", at, err)
		}
		if _, err := store.ParseEndedKey(key[:10]); !errors.Is(err, store.ErrCorrupt) {
			t.Error(err)
		}
	}
}

// part is a partition with only a number.
type part struct {
	store.Partition
	id store.PartitionID
}

func (p part) ID() store.PartitionID { return p.id }

func TestCheckGroups(t *testing.T) {
	run := store.RunKey{ID: "r"}
	p := part{id: run.Partition()}
	one := store.RunCommit{Run: run}
	for _, c := range []struct {
		groups []store.Group
		want   string
	}{
		{[]store.Group{{Partition: p, Runs: []store.RunCommit{one}}}, ""},
		{[]store.Group{{Partition: p, Runs: make([]store.RunCommit, store.MaxCommitRecords+1)}}, "the limit is"},
		{[]store.Group{{Partition: p}, {Partition: p}}, "occurs twice in one commit"},
		{[]store.Group{{Partition: p, Runs: []store.RunCommit{one, one}}}, `run "r" occurs twice`},
		{[]store.Group{{Partition: part{id: (p.id + 1) % store.Partitions}, Runs: []store.RunCommit{one}}}, "is of partition"},
		{[]store.Group{{Partition: p, Wakes: []store.WakeSet{{Kind: store.WakeRun, Key: run}}}}, "is set by its record"},
		{[]store.Group{{Partition: p, Wakes: []store.WakeSet{{Kind: 200, Key: run}}}}, "unknown kind 200"},
	} {
		err := store.CheckGroups(c.groups)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if refused, ok := errors.AsType[*store.RefusedError](err); ok && !errors.Is(err, refused.Err) {
			t.Errorf("%v does not wrap %v", err, refused.Err)
		}
	}
}

func TestSmallRules(t *testing.T) {
	if err := store.CheckSealKey(&store.SealKey{ID: "k"}); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"", strings.Repeat("k", store.MaxSealKeyID+1)} {
		if store.CheckSealKey(&store.SealKey{ID: id}) == nil {
			t.Errorf("a key with an id of %d bytes is accepted", len(id))
		}
	}
	if id, rest, err := store.SealedKey([]byte("\x02k1text")); id != "k1" || string(rest) != "text" || err != nil {
		t.Error(id, rest, err)
	}
	for _, b := range []string{"", "\x00", "\x05abc"} {
		if _, _, err := store.SealedKey([]byte(b)); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%q: %v", b, err)
		}
	}
	for number, want := range map[uint32]string{0: `workflow "w": not found`, 3: `version 3 of workflow "w"`} {
		if err := store.VersionNotFound("w", number); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
	counts := []store.Count{{Workflow: "b", Version: 1}, {Workflow: "a", Version: 2}, {Workflow: "a", Version: 1}}
	if slices.SortFunc(counts, store.CompareCounts); counts[0].Version != 1 || counts[2].Workflow != "b" {
		t.Errorf("%+v", counts)
	}
	st := store.Unreadable(store.RunKey{ID: "r"}, store.Position{UnixMs: 5}, store.ErrCorrupt)
	if st.Status != store.Stuck || st.CreatedUnixMs != 5 || !strings.Contains(st.Reason, "cannot be read") {
		t.Errorf("%+v", st)
	}
	for s := store.Status(1); s <= store.Terminated; s++ {
		if s.Busy() != (s == store.Queued || s == store.Running) {
			t.Errorf("%s is busy: %v", s, s.Busy())
		}
	}
}
