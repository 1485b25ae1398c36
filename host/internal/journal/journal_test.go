package journal

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/wfhost/wfhost/store"
)

var rewrite = flag.Bool("rewrite", false, "write what happens into the stories")

// TestStories runs the stories in testdata: a line that begins with > is an event, and the lines below it are what
// the journal makes of it. They are readable rules of a run.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		s := &story{j: &Journal{}}
		for line := range strings.SplitSeq(strings.TrimRight(string(b), "\n"), "\n") {
			switch {
			case strings.HasPrefix(line, "# ") || line == "":
				fmt.Fprintln(&out, line)
			case strings.HasPrefix(line, "> "):
				fmt.Fprintln(&out, line)
				out.WriteString(s.do(t, strings.Fields(line[2:])))
			}
		}
		if *rewrite {
			if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if out.String() != string(b) {
			t.Errorf("%s differs; what happens is\n%s", path, out.String())
		}
		again := &Journal{}
		for _, e := range s.j.All() {
			if err := again.Load(e); err != nil {
				t.Errorf("%s: loading what was appended: %v", path, err)
			}
		}
	}
}

type story struct {
	j  *Journal
	at int64
}

// do performs a line: time command key=value …
func (s *story) do(t *testing.T, f []string) string {
	ms, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil {
		t.Fatalf("%v: %v", f, err)
	}
	s.at = ms
	args := map[string]string{}
	for _, a := range f[2:] {
		k, v, _ := strings.Cut(a, "=")
		args[k] = v
	}
	num := func(k string) int64 {
		n, _ := strconv.ParseInt(args[k], 10, 64)
		return n
	}
	from := s.j.Len()
	var note string
	switch f[1] {
	case "due":
		err = s.j.FireDue(ms)
	case "wait":
		w := store.Suspension{Seq: store.Seq(s.j.Len()), Poll: args["poll"] != "", Events: args["poll"] == "events", PollDue: args["clock"] != "", PollDueUnixMs: num("clock")}
		for _, h := range strings.FieldsFunc(args["for"], func(r rune) bool { return r == ',' }) {
			n, _ := strconv.ParseInt(h, 10, 64)
			w.Awaited = append(w.Awaited, n)
		}
		s.j.Suspend(w)
	case "wake":
		if ms, ok := s.j.Wake(); ok {
			note = fmt.Sprintf("   wakes at %d\n", ms)
		} else {
			note = "   nothing will wake it\n"
		}
		note += fmt.Sprintf("   deliverable %v, open %d\n", s.j.Deliverable(), s.j.OpenHandles())
	case "pending":
		for _, e := range s.j.Pending(func(h int64) bool { return args["told"] != "" && h <= num("told") }) {
			note += fmt.Sprintf("   pending signal %d %s\n", e.Seq, e.Name)
		}
	case "retry":
		var e store.Entry
		e, err = s.j.Retry()
		if err == nil {
			_, err = s.j.Append(e, ms)
		}
	case "skip":
		var n int
		n, err = s.j.Skip(args["name"], ms)
		note = fmt.Sprintf("   skipped %d\n", n)
	default:
		e := store.Entry{Name: args["name"], Handle: num("handle"), DueUnixMs: num("due"), HasDue: args["due"] != "",
			Attempt: uint32(num("attempt")), Code: int32(num("code")), Refused: int32(num("refused")), Options: []byte(args["options"]),
			Ref: store.Seq(num("ref")), Target: args["key"], Data: []byte(args["data"])}
		for k := range store.Kind(127) {
			if k.Known() && k.String() == f[1] {
				e.Kind = k
			}
		}
		if f[1] == "started" {
			e = Started{RunID: "r", Workflow: "w", DeadlineUnixMs: num("deadline")}.Entry(nil)
		}
		if len(e.Options) == 0 {
			e.Options = nil
		}
		_, err = s.j.Append(e, ms)
	}
	var out strings.Builder
	for _, e := range s.j.All()[from:] {
		fmt.Fprintf(&out, "   %d %s at %d", e.Seq, e.Kind, e.UnixMs)
		if e.Handle != 0 {
			fmt.Fprintf(&out, " handle %d", e.Handle)
		}
		if e.HasDue {
			fmt.Fprintf(&out, " due %d", e.DueUnixMs)
		}
		if e.Ref != 0 {
			fmt.Fprintf(&out, " of entry %d", e.Ref)
		}
		out.WriteString("\n")
	}
	out.WriteString(note)
	if err != nil {
		fmt.Fprintf(&out, "   %v\n", err)
	}
	return out.String()
}

func begun(t testing.TB) *Journal {
	j := &Journal{}
	for _, e := range []store.Entry{Started{RunID: "r", Workflow: "w"}.Entry([]byte("in")), {Kind: store.KindActivated}} {
		if _, err := j.Append(e, 1000); err != nil {
			t.Fatal(err)
		}
	}
	return j
}

// TestRandomHistories appends random entries: what is accepted loads to the same state, an end is final, no timer is
// early, time never goes backwards, and no handle is resolved twice.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		j := begun(t)
		now := int64(1000)
		for range rapid.IntRange(1, 40).Draw(rt, "n") {
			now += rapid.Int64Range(-50, 100).Draw(rt, "dt")
			e := store.Entry{Kind: store.Kind(rapid.IntRange(1, 100).Draw(rt, "kind")), Handle: rapid.Int64Range(0, 6).Draw(rt, "handle"),
				DueUnixMs: now + rapid.Int64Range(-10, 200).Draw(rt, "due"), HasDue: true, Attempt: uint32(rapid.IntRange(0, 4).Draw(rt, "attempt"))}
			if opens[e.Kind] {
				e.Handle = int64(len(j.handles)) + 1
			}
			ended := j.Ended()
			_, err := j.Append(e, now)
			if ended != store.KindInvalid && e.Kind != store.KindRetried && !errors.Is(err, ErrEnded) {
				rt.Fatalf("%s after %s: %v", e.Kind, ended, err)
			}
		}
		again := &Journal{}
		resolved := map[int64]bool{}
		last := int64(0)
		for i, e := range j.All() {
			if err := again.Load(e); err != nil {
				rt.Fatal(err)
			}
			if e.UnixMs < last || int(e.Seq) != i {
				rt.Fatalf("entry %d: seq %d, time %d after %d", i, e.Seq, e.UnixMs, last)
			}
			last = e.UnixMs
			if e.Kind.Delivery() && e.Handle != 0 {
				if resolved[e.Handle] {
					rt.Fatalf("handle %d is resolved twice", e.Handle)
				}
				resolved[e.Handle] = true
				if e.Kind == store.KindTimer && !e.Skipped && e.UnixMs < j.Handle(e.Handle).DueUnixMs {
					rt.Fatalf("timer %d is early", e.Handle)
				}
			}
		}
		a, aok := j.Wake()
		b, bok := again.Wake()
		if a != b || aok != bok || j.Bytes() != again.Bytes() || j.OpenHandles() != again.OpenHandles() || j.Ended() != again.Ended() {
			rt.Fatal("the loaded journal is in another state")
		}
	})
}

func TestLoadRefusesDamage(t *testing.T) {
	j := begun(t)
	if err := j.Load(store.Entry{Seq: 5, Kind: store.KindSleep}); !errors.Is(err, store.ErrCorrupt) {
		t.Error(err)
	}
	if err := j.Load(store.Entry{Seq: 2, Kind: store.KindSleep, Handle: 1, UnixMs: 1}); !errors.Is(err, store.ErrCorrupt) {
		t.Error(err)
	}
	if err := j.Load(store.Entry{Seq: 2, Kind: store.KindTimer, Handle: 1, UnixMs: 2000}); !errors.Is(err, store.ErrCorrupt) {
		t.Error(err)
	}
	bad := &Journal{}
	if _, err := bad.Append(store.Entry{Kind: store.KindStarted, Options: []byte("x")}, 0); !errors.Is(err, ErrIllegal) {
		t.Error(err)
	}
	if _, err := j.Append(store.Entry{Kind: store.KindStep, Handle: 1, Name: "s", Options: []byte(`{"x":1}`)}, 2000); !errors.Is(err, ErrIllegal) {
		t.Error(err)
	}
}

func TestCallRoom(t *testing.T) {
	j := begun(t)
	if err := j.CallRoom(); err != nil {
		t.Fatal(err)
	}
	for i := range 45_000 {
		if _, err := j.Append(store.Entry{Kind: store.KindEmit, Name: strconv.Itoa(i)}, 2000); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.CallRoom(); err == nil || !strings.Contains(err.Error(), "45000 of 50000") {
		t.Fatal(err)
	}
	big := begun(t)
	for range 60 {
		if _, err := big.Append(store.Entry{Kind: store.KindEmit, Name: "x", Input: make([]byte, 1<<20)}, 2000); err != nil {
			t.Fatal(err)
		}
	}
	if err := big.CallRoom(); err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Fatal(err)
	}
	if j.Started().Workflow != "w" || j.Handle(0) != nil || j.Bytes() == 0 {
		t.Fatal("accessors")
	}
}
