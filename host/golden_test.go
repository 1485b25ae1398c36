package host_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/pebblestore"
)

var writeGolden = flag.Bool("golden", false, "write the golden store of this release: see testdata/golden/regenerate.sh")

// goldenAge is the time after the epoch at which the golden stores were closed.
const goldenAge = 30 * time.Minute

// goldenPath is the golden store of a format, as text.
func goldenPath(format int) string { return fmt.Sprintf("testdata/golden/format%d.txt", format) }

// dump writes a store as text: the format of its database, the runs as comments, then one line per key with
// namespace, partition, table, the rest of the key, and the value.
func dump(t *testing.T, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	found, _, err := pebblestore.Upgrade(dir, pebblestore.Options{})
	do(t, err)
	fmt.Fprintf(&b, "pebble %d\n", found)
	s, err := pebblestore.Open(dir, pebblestore.Options{ReadOnly: true})
	do(t, err)
	for ns, err := range s.Namespaces(ctx) {
		do(t, err)
		for st, err := range store.Runs(ctx, s, store.Query{Namespace: ns.ID, Oldest: true}, 0) {
			do(t, err)
			fmt.Fprintf(&b, "# %s/%s %s %s\n", ns.Name, st.Run.ID, st.Status, st.Reason)
		}
	}
	do(t, s.Close())
	db, err := pebble.Open(dir, &pebble.Options{ReadOnly: true})
	do(t, err)
	it, err := db.NewIter(nil)
	do(t, err)
	for ok := it.First(); ok; ok = it.Next() {
		k := it.Key()
		fmt.Fprintf(&b, "%d %d %c %s %s\n", binary.BigEndian.Uint32(k), binary.BigEndian.Uint16(k[4:]), k[6], strconv.QuoteToASCII(string(k[7:])),
			quote(it.Value()))
	}
	do(t, errors.Join(it.Error(), it.Close(), db.Close()))
	return b.Bytes()
}

// maxGolden is the maximum length of values that are written verbatim.
const maxGolden = 16 << 10

// quote formats a value as text. A long value of equal bytes is written as its length and that byte.
func quote(v []byte) string {
	if len(v) > maxGolden {
		return fmt.Sprintf("%d*%s", len(v), strconv.QuoteToASCII(string(v[:1])))
	}
	return strconv.QuoteToASCII(string(v))
}

// unquote reads what quote has written.
func unquote(text string) (string, error) {
	n, unit, long := strings.Cut(text, "*")
	if !long || strings.HasPrefix(text, `"`) {
		return strconv.Unquote(text)
	}
	times, err := strconv.Atoi(n)
	if err != nil {
		return "", err
	}
	unit, err = strconv.Unquote(unit)
	return strings.Repeat(unit, times), err
}

// load makes a store of its text.
func load(t *testing.T, text []byte, dir string) {
	t.Helper()
	var db *pebble.DB
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		if version, ok := strings.CutPrefix(line, "pebble "); ok {
			v, err := strconv.Atoi(version)
			do(t, err)
			db, err = pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatMajorVersion(v)})
			do(t, err)
			continue
		}
		var ns uint32
		var p uint16
		var table byte
		fields := strings.SplitN(line, " ", 4)
		if _, err := fmt.Sscanf(line, "%d %d %c", &ns, &p, &table); err != nil || len(fields) != 4 {
			t.Fatalf("line %d: %d fields, %v", n, len(fields), err)
		}
		quoted, err := strconv.QuotedPrefix(fields[3])
		do(t, err)
		rest, err := strconv.Unquote(quoted)
		do(t, err)
		value, err := unquote(strings.TrimPrefix(fields[3][len(quoted):], " "))
		do(t, err)
		do(t, db.Set(append(store.AppendPrefix(nil, store.NamespaceID(ns), store.PartitionID(p), table), rest...), []byte(value), nil))
	}
	do(t, errors.Join(lines.Err(), db.Close()))
}

// fillGolden fills a store with runs of all kinds, some of which an older release started.
func fillGolden(t *testing.T, dir string) {
	unpack(t, "testdata/store-190749f/store.tar.gz", dir)
	o := openOld(t, dir, goldenAge)
	ns, err := o.Namespace(ctx, "other")
	do(t, err)
	_, err = ns.Upload(ctx, "nap", napModule())
	do(t, err)
	_, err = ns.StartRaw(ctx, "nap", []byte("90h"), host.WithRunID("asleep"))
	do(t, err)
	_, err = o.StartRaw(ctx, "nap", []byte("91h"), host.WithRunID("new"), host.WithAttributes(map[string]string{"of": "this release"}))
	do(t, err)
	_, err = o.StartRaw(ctx, "listen", []byte(strings.Repeat("x", 300_000)), host.WithRunID("asked"))
	do(t, err)
	do(t, o.Signal(ctx, "asked", "other", "kept"))
	do(t, ns.Retentions().Set(ctx, host.Retention{Workflow: "nobody", Completed: host.MinRetention}))
	_, _, err = o.Tokens().Create(ctx, host.TokenSpec{Name: "golden", Scopes: []host.Scope{host.ScopeRead}})
	do(t, err)
	_, err = ns.Schedules().Create(ctx, "once", host.ScheduleSpec{Workflow: "nap", Input: []byte("1m"),
		When: hosttest.Epoch.Add(goldenAge + 50*time.Hour).Format(time.RFC3339)})
	do(t, err)
	do(t, o.Delete(ctx, "cancelled"))
	_, err = ns.Upload(ctx, "print", printModule())
	do(t, err)
	_, err = ns.WorkflowLimits().Set(ctx, host.WorkflowLimit{Workflow: "print", Concurrency: []string{"1 per input.of"}, Rate: []string{"2/24h"}})
	do(t, err)
	for _, id := range []string{"print1", "print2", "print3"} {
		_, err = ns.StartRaw(ctx, "print", []byte(`{"of":"a"}`), host.WithRunID(id))
		do(t, err)
	}
	_, err = ns.StartRaw(ctx, "nap", []byte("92h"), host.WithRunID("moved"))
	do(t, err)
	o.Settle()
	v, err := ns.Upload(ctx, "nap", napModule(), host.AllowStep("charge"))
	do(t, err)
	sum, err := ns.Workflows().Migrate(ctx, "nap", host.MigrateOptions{To: v.Number, Runs: []string{"moved"}})
	if err != nil || sum.Migrated != 1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	_, err = ns.StartRaw(ctx, "nap", []byte("93h"), host.WithRunID("away"))
	do(t, err)
	o.Settle()
	var file bytes.Buffer
	do(t, ns.Export(ctx, "away", &file, host.ExportOptions{Move: true}))
	third, err := o.Namespace(ctx, "third")
	do(t, err)
	_, err = third.Import(ctx, bytes.NewReader(file.Bytes()), host.ImportOptions{Adopt: true})
	do(t, err)
	_, err = o.Import(ctx, bytes.NewReader(file.Bytes()), host.ImportOptions{})
	do(t, err)
	o.Settle()
	o.Stop()
}

// TestGoldenStores opens the store of each release, verifies it, and lets its runs complete.
func TestGoldenStores(t *testing.T) {
	if *writeGolden {
		dir := t.TempDir()
		fillGolden(t, dir)
		do(t, os.WriteFile(goldenPath(store.FormatVersion), dump(t, filepath.Join(dir, "store")), 0o644))
	}
	for format := 3; format <= store.FormatVersion; format++ { // of those before there is testdata/store-190749f
		text, err := os.ReadFile(goldenPath(format))
		if err != nil {
			t.Fatalf("%v; write it with testdata/golden/regenerate.sh", err)
		}
		dir := t.TempDir()
		load(t, text, filepath.Join(dir, "store"))
		r, err := host.Verify(ctx, dir, host.Config{Interpreter: true}, host.VerifyOptions{NoReplay: format < store.FormatVersion,
			Engines: bothEngines})
		do(t, err)
		if format == store.FormatVersion && (!r.Sound() || r.Runs != 24 || r.Replayed != 24 || r.Blobs == 0) {
			t.Errorf("format %d: %+v", format, r)
		}
		o := openOld(t, dir, goldenAge+time.Minute)
		o.ended("overdue", "10m", goldenAge)
		o.is("asleep", host.Sleeping)
		o.is("retrying", host.Waiting)
		o.is("asked", host.Waiting)
		if run := o.is("new", host.Sleeping); run.Attributes["of"] != "this release" {
			t.Errorf("%+v", run)
		}
		do(t, o.Signal(ctx, "asked", "go", "after"))
		do(t, o.Signal(ctx, "listening", "go", "after"))
		_, err = o.Unpause(ctx, "paused")
		do(t, err)
		o.to(100 * time.Hour)
		for _, c := range []struct {
			id, result string
			after      time.Duration
		}{{"asked", `"after"`, goldenAge + time.Minute}, {"listening", `"after"`, goldenAge + time.Minute}, {"paused", "1h", time.Hour},
			{"retrying", "", time.Hour}, {"delayed", "1h", 25 * time.Hour}, {"continued", "36h", 36 * time.Hour},
			{"asleep", "48h", 48 * time.Hour}, {"parent", "72h", 72 * time.Hour}, {"kid", "72h", 72 * time.Hour},
			{"new", "91h", goldenAge + 91*time.Hour}} {
			o.ended(c.id, c.result, c.after)
		}
		ns, err := o.Namespace(ctx, "other")
		do(t, err)
		if run, err := ns.Get(ctx, "asleep"); err != nil || run.Status != host.Completed || run.Ended.Sub(hosttest.Epoch) != goldenAge+90*time.Hour {
			t.Errorf("the run of the other namespace: %+v, %v", run, err)
		}
		kept, err := ns.Retentions().List(ctx)
		do(t, err)
		tokens, err := o.Tokens().List(ctx)
		do(t, err)
		if format >= 4 && (len(kept) != 1 || kept[0].Workflow != "nobody" || len(tokens) != 1 || tokens[0].Name != "golden") {
			t.Errorf("format %d: retentions %+v, tokens %+v", format, kept, tokens)
		}
		if format >= 4 {
			run, err := ns.Get(ctx, "moved")
			if err != nil || run.Version != 2 || run.Status != host.Completed || run.Ended.Sub(hosttest.Epoch) != goldenAge+92*time.Hour {
				t.Errorf("the run that was migrated: %+v, %v", run, err)
			}
		}
		if format >= 4 {
			aside(t, o)
		}
		for id, ended := range map[string]time.Duration{"print1": time.Minute, "print2": 2 * time.Minute, "print3": 24*time.Hour + time.Minute} {
			if run, err := ns.Get(ctx, id); format >= 4 && (err != nil || run.Ended.Sub(hosttest.Epoch) != goldenAge+ended) {
				t.Errorf("format %d: the run %s: %+v, %v", format, id, run, err)
			}
		}
		if s, err := ns.Schedules().Get(ctx, "once"); format >= 4 && (err != nil || s.Started != 1 || !s.Ended) {
			t.Errorf("format %d: schedule %+v, %v", format, s, err)
		}
		o.Stop()
		if r := sound(t, dir); r.Replayed != r.Runs {
			t.Errorf("at the end: %+v", r)
		}
	}
}

// aside checks a run in three namespaces: the moved run, its continuation, and a copy.
func aside(t *testing.T, o *old) {
	t.Helper()
	for name, want := range map[string]string{"other": "moved", "third": "", "": "copy"} {
		ns, err := o.Namespace(ctx, name)
		do(t, err)
		run, err := ns.Get(ctx, "away")
		ended := run.Status == host.Completed && run.Ended.Sub(hosttest.Epoch) == goldenAge+93*time.Hour
		if err != nil || run.Aside != want || ended != (name == "third") || !ended && run.Status != host.Paused {
			t.Errorf("%q: %+v, %v", name, run, err)
		}
	}
}
