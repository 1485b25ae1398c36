package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
)

const fullRecords, fullSize = 64, 64 << 10

// full stores a run with a long log and output, and, in namespace 1, large runs and schedules.
func (e *env) full() store.RunKey {
	e.t.Helper()
	text := strings.Repeat("x", fullSize)
	st := state("r")
	st.Length, st.LogRecords, st.Output = 1, fullRecords, fullRecords
	c := store.RunCommit{Run: st.Run, Create: true, Append: entries(0, 1), State: st}
	for i := range uint64(fullRecords) {
		c.Logs = append(c.Logs, store.LogLine{Index: i, Text: text})
		c.Output = append(c.Output, store.Chunk{Index: i, Topic: "t", Data: []byte(text)})
	}
	e.ok(e.partition(st.Run.Partition()).Commit(context.Background(), []store.RunCommit{c}))
	for i := range fullRecords {
		st := state(fmt.Sprintf("s%02d", i))
		st.Run.Namespace, st.Status, st.WakeUnixMs, st.CreatedUnixMs = 1, store.Sleeping, int64(100+i), int64(100+i)
		for k := range 64 {
			st.Attributes = append(st.Attributes, store.Attribute{Key: fmt.Sprint("k", 100+k), Value: text[:fullSize/64]})
		}
		e.ok(e.commit(st, true, 0, 1))
		x := schedule(1, fmt.Sprintf("s%02d", i), 1, store.NoWake)
		x.Data = []byte(text)
		e.ok(e.setSchedule(x, false))
	}
	return st.Run
}

// testFullPages reads large items: a page ends when it holds store.MaxPageBytes, and the pages together have each
// item once.
func testFullPages(t *testing.T, e *env) {
	const n, size = fullRecords, fullSize
	ctx, run := context.Background(), e.full()
	var runs, timers store.Page
	for what, read := range map[string]func(from int) (ids []int, err error){
		"logs": func(from int) (ids []int, err error) {
			lines, err := e.s.Logs(ctx, run, uint64(from), n)
			for _, x := range lines {
				ids = append(ids, int(x.Index))
			}
			return ids, err
		},
		"output": func(from int) (ids []int, err error) {
			chunks, err := e.s.Output(ctx, run, uint64(from), n)
			for _, x := range chunks {
				ids = append(ids, int(x.Index))
			}
			return ids, err
		},
		"schedules": func(from int) (ids []int, err error) {
			q := store.ScheduleQuery{Namespace: 1, Limit: n}
			if from > 0 {
				q.After = fmt.Sprintf("s%02d", from-1)
			}
			list, err := e.s.Schedules(ctx, q)
			for _, x := range list {
				ids = append(ids, numberOf(x.Key.ID))
			}
			return ids, err
		},
		"runs": func(int) (ids []int, err error) {
			runs, err = e.s.List(ctx, store.Query{Namespace: 1, Oldest: true, Limit: n, After: runs.Next})
			return numbersOf(&runs), err
		},
		"timers": func(int) (ids []int, err error) {
			timers, err = e.s.Timers(ctx, store.TimerQuery{Namespace: 1, UntilMs: 1000, Limit: n, After: timers.Next})
			return numbersOf(&timers), err
		},
	} {
		pages := 0
		for next := 0; next < n; pages++ {
			ids, err := read(next)
			e.ok(err)
			if len(ids) == 0 || len(ids)*size > store.MaxPageBytes+2*size {
				t.Fatalf("%s: a page of %d, each of %d bytes", what, len(ids), size)
			}
			for _, id := range ids {
				if id != next {
					t.Fatalf("%s: %v, want %d", what, ids, next)
				}
				next++
			}
		}
		if pages > n*size/store.MaxPageBytes+2 {
			t.Errorf("%s: %d pages", what, pages)
		}
	}
	if runs.Next != nil || timers.Next != nil {
		t.Errorf("the last pages have next ones: %v, %v", runs.Next, timers.Next)
	}
}

func numbersOf(page *store.Page) (ids []int) {
	for i := range page.Runs {
		ids = append(ids, numberOf(page.Runs[i].Run.ID))
	}
	return ids
}

func numberOf(id string) (n int) {
	_, _ = fmt.Sscanf(id, "s%d", &n) // 0 differs from what is wanted
	return n
}
