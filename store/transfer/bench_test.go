package transfer_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
	"github.com/wfhost/wfhost/store/transfer"
)

var benchRuns = flag.Int("transfer.runs", 10_000, "the number of sleeping runs that BenchmarkCopy moves")

// BenchmarkCopy moves sleeping runs with six entries each from a folder into a database whose commits are durable, and back.
func BenchmarkCopy(b *testing.B) {
	server := pgtest.New(b, pgtest.Durable...)
	server.Exec(b, "postgres", "create database wf")
	from, to := folder(b), place{url: server.URL("wf")}
	s := from.open(b)
	fillSleeping(b, s, *benchRuns)
	ok(b, s.Close())
	for _, way := range []struct {
		name     string
		from, to place
	}{{"into a database", from, to}, {"back", to, folder(b)}} {
		b.Run(way.name, func(b *testing.B) {
			if b.N > 1 {
				b.Skip("the source is moved: run it with -benchtime 1x")
			}
			r := way.from.copyTo(b, way.to)
			b.ReportMetric(float64(*benchRuns)/b.Elapsed().Seconds(), "runs/s")
			if r.Records(transfer.Run) != int64(*benchRuns) {
				b.Fatal(r)
			}
		})
	}
}

func fillSleeping(t testing.TB, s store.Store, n int) {
	t.Helper()
	var groups [store.Partitions]store.Group
	var held int
	flush := func() {
		var list []store.Group
		for i := range groups {
			if len(groups[i].Runs) > 0 {
				list = append(list, groups[i])
				groups[i].Runs = nil
			}
		}
		ok(t, s.Commit(ctx, list))
		held = 0
	}
	for i := range groups {
		p, err := s.Acquire(ctx, store.PartitionID(i), "test", 0)
		ok(t, err)
		groups[i].Partition = p
	}
	for i := range n {
		st := store.RunState{Run: store.RunKey{ID: fmt.Sprintf("order-%d", i*7919%n)}, Workflow: "order", Version: 1, Status: store.Sleeping,
			CreatedUnixMs: int64(1e12 + i), WakeUnixMs: int64(2e12 + i), Length: 6, JournalBytes: 400, StoredBytes: 400,
			Attributes: []store.Attribute{{Key: "customer", Value: fmt.Sprint("c", i%1000)}}}
		c := store.RunCommit{Run: st.Run, Create: true, State: st}
		for k := range store.Seq(6) {
			c.Append = append(c.Append, store.Entry{Seq: k, Kind: store.KindStep, UnixMs: int64(1e12 + i), Name: "charge", Target: "http",
				Input: []byte(`{"amount": 100, "currency": "EUR"}`)})
		}
		g := &groups[st.Run.Partition()]
		g.Runs = append(g.Runs, c)
		if held++; held == store.MaxCommitRecords {
			flush()
		}
	}
	flush()
}
