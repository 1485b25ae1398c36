package host_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
)

// contents is what a store holds, without deleted data that is still in its files.
type contents struct {
	keys, bytes, files int64
	tables             map[byte]int64 // keys of each table
}

// String lists the tables, too.
func (c contents) String() string {
	text := fmt.Sprintf("%d keys, %d bytes, %d in files:", c.keys, c.bytes, c.files)
	for _, table := range slices.Sorted(maps.Keys(c.tables)) {
		text += fmt.Sprintf(" %c %d", table, c.tables[table])
	}
	return text
}

// measure compacts a closed store and measures it.
func measure(t *testing.T, dir string) (c contents) {
	t.Helper()
	db, err := pebble.Open(dir, &pebble.Options{Logger: silent{}, FormatMajorVersion: pebble.FormatNewest})
	do(t, err)
	do(t, db.Compact(ctx, []byte{0}, []byte{255, 255, 255, 255, 255}, false))
	it, err := db.NewIter(nil)
	do(t, err)
	c.tables = map[byte]int64{}
	for ok := it.First(); ok; ok = it.Next() {
		c.keys, c.bytes = c.keys+1, c.bytes+int64(len(it.Key())+len(it.Value()))
		c.tables[it.Key()[6]]++
	}
	do(t, errors.Join(it.Error(), it.Close(), db.Close()))
	files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	do(t, err)
	for _, f := range files {
		info, err := os.Stat(f)
		do(t, err)
		c.files += info.Size()
	}
	return c
}

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

// everyday are the runs of TestYear that leave data in each table: logs, attributes, output, steps, children, hooks,
// signals, commands, a second iteration, slots of limits, and runs of schedules and debounces. Each name is used
// once.
type everyday struct {
	*hosttest.Host
	t *testing.T
}

// perEveryday is the number of runs per start: the run, its child, and a debounced run.
const perEveryday = 3

// handlers registers what the workflows call.
func (everyday) handlers(h *host.Host) {
	host.HandleStep(h, "pay", func(_ context.Context, in string) (string, error) { return in, nil })
	host.HandleStep(h, "fail", func(_ context.Context, in string) (string, error) { return "", errors.New(in) })
}

func (e everyday) prepare() {
	e.t.Helper()
	_, err := e.Upload(ctx, "", hosttest.Build(e.t, "testdata/everyday"), host.AllowStep("*"))
	do(e.t, err)
	_, err = e.WorkflowLimits().Set(ctx, host.WorkflowLimit{Workflow: "everyday", Concurrency: []string{"1 per input.name"}, Rate: []string{"5/1h per input.name"}})
	do(e.t, err)
	_, err = e.StartWindows().Set(ctx, host.StartWindow{Workflow: "gathered", Debounce: "1h per input.name"})
	do(e.t, err)
	_, err = e.Schedules().Create(ctx, "daily", host.ScheduleSpec{Workflow: "part", Input: []byte(`"scheduled"`), When: "@every 24h"})
	do(e.t, err)
}

// day lets n runs end.
func (e everyday) day(d, n int) {
	e.t.Helper()
	each := func(do func(id string) error) {
		e.t.Helper()
		for i := range n {
			if err := do(fmt.Sprintf("e%03d-%04d", d, i)); err != nil {
				e.t.Fatal(err)
			}
		}
		e.Settle()
	}
	each(func(id string) error {
		_, err := e.Start(ctx, "everyday", map[string]string{"name": id}, host.WithRunID(id))
		if err == nil {
			_, err = e.Start(ctx, "gathered", map[string]string{"name": id})
		}
		return err
	})
	each(func(id string) error {
		_, err := e.Hooks().Deliver(ctx, "token-of-"+id, []byte(`"delivered"`))
		return err
	})
	each(func(id string) error { return e.Signal(ctx, id, "go", "on", host.WithIdempotencyKey("key-of-"+id)) })
	each(func(id string) error {
		if r, err := e.Get(ctx, id); err != nil || r.Status != host.Completed {
			return fmt.Errorf("run %s is %s %s, %w", id, r.Status, r.Reason, err)
		}
		return nil
	})
}

// leftBytes is an upper bound for what remains of a deleted run.
const leftBytes = 224

// TestYear starts runs each day of a year, some with a large input and some that leave data in each table, and keeps
// them for 30 days. Afterwards the store, and each table, is as large as when retention first took effect.
// WFHOST_YEAR_RUNS is the number of runs per day.
func TestYear(t *testing.T) {
	perDay, days := 4, 365
	if text := os.Getenv("WFHOST_YEAR_RUNS"); text != "" {
		n, err := strconv.Atoi(text)
		do(t, err)
		perDay = n
	}
	dir := t.TempDir()
	h := handmade(t, wasmgen.New(0).I32(0), hosttest.WithStore(func() store.Store {
		s, err := pebblestore.Open(dir, pebblestore.Options{NoSync: true})
		do(t, err)
		return s
	}), hosttest.WithHandlers(everyday{}.handlers),
		hosttest.WithConfig(func(c *host.Config) { c.Retention = host.Retention{Completed: 30 * day} }))
	busy, perBusy := everyday{h, t}, (perDay+19)/20
	busy.prepare()
	at := map[int]contents{}
	for d := 1; d <= days; d++ {
		for i := range perDay {
			input := []byte("1")
			if i == 0 {
				input = fmt.Appendf(nil, `"%s %d"`, strings.Repeat("x", 300<<10), d)
			}
			_, err := h.StartRaw(ctx, "w", input, host.WithRunID(fmt.Sprintf("%03d.%04d", d, i)))
			do(t, err)
		}
		busy.day(d, perBusy)
		swept, err := h.Retentions().Sweep(ctx, false)
		do(t, err)
		if d > 32 && swept.Deleted != perDay+perEveryday*perBusy+1 || swept.Failed > 0 { // one by the schedule
			t.Fatalf("day %d: %+v", d, swept)
		}
		if d == 30 || d == 61 || d == days {
			h.Stop()
			at[d] = measure(t, dir)
			t.Logf("day %d: %v", d, at[d])
			h.Reopen()
		}
		h.Clock.Advance(day)
	}
	month, steady, year := at[30], at[61], at[days]
	// There are some keys per partition, and growing numbers.
	if float64(year.keys) > 1.001*float64(steady.keys)+2*host.NumPartitions || float64(year.bytes) > 1.005*float64(steady.bytes) ||
		float64(year.files) > 1.1*float64(steady.files) {
		t.Errorf("it grows: %v after 61 days, %v after a year", steady, year)
	}
	for table, n := range year.tables {
		most := steady.tables[table] + steady.tables[table]/100 + 2
		switch table {
		case 'e': // state of the partitions: a few keys each, some of which come late
			most = 5 * host.NumPartitions
		case 'n': // counts, of those partitions that have runs
			most += host.NumPartitions
		}
		if before := steady.tables[table]; n > most {
			t.Errorf("table %c has %d keys after 61 days, and %d after a year", table, before, n)
		}
	}
	for _, table := range []byte("sjrcktxougyqpPBi") { // of runs and what they leave
		if table != store.TableInbox && steady.tables[table] == 0 {
			t.Errorf("there is nothing in table %c", table)
		}
	}
	// Plus the remains of 30 days of deleted runs, which are two keys with an id and a short state, and of the 31st day.
	left := leftBytes * float64(steady.tables[store.TableDeleted])
	if float64(year.bytes) > 1.04*float64(month.bytes)+left {
		t.Errorf("%v after 30 days, %v after a year", month, year)
	}
}
