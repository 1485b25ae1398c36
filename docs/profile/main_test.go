package main

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden picture")

// traces has a label, a generic function, an inlined one, guest code and one that is too small for the picture.
const traces = `File: x.test
Type: cpu
Duration: 2s, Total samples = 1000ms
-----------+-------------------------------------------------------
   pebble:  wal-sync
     249ms   internal/runtime/syscall/linux.Syscall6
             github.com/cockroachdb/pebble/v2/record.(*LogWriter).flushLoop
-----------+-------------------------------------------------------
     500ms   github.com/wfhost/wfhost/host/internal/wheel.(*Wheel[go.shape.struct { ID []uint8 }]).put (inline)
             github.com/wfhost/wfhost/host/internal/sched.(*Scheduler).work
-----------+-------------------------------------------------------
     150ms   github.com/tetratelabs/wazero.(*runtime).InstantiateModule
             github.com/wfhost/wfhost/host/internal/sched.(*Scheduler).work
-----------+-------------------------------------------------------
     100ms   runtime._ExternalCode
             runtime._System
-----------+-------------------------------------------------------
       1ms   runtime.gcStart
             github.com/wfhost/wfhost/host/internal/sched.(*Scheduler).work
`

func TestPicture(t *testing.T) {
	all, err := fold(strings.NewReader(traces))
	if err != nil {
		t.Fatal(err)
	}
	got := picture("Work & <wakes>", all)
	if *rewrite {
		if err := os.WriteFile("testdata/golden.svg", []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/golden.svg")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("not the golden picture; if it is meant: go test ./docs/profile -rewrite\n%s", got)
	}
}

func TestClip(t *testing.T) {
	for n, want := range map[int]string{20: "sched.owner.commit", 6: "sched…", 3: "sc…", 2: "", -1: ""} {
		if got := clip("sched.(*owner).commit", n); got != want {
			t.Errorf("%d characters: %q", n, got)
		}
	}
}

func TestNoTraces(t *testing.T) {
	for _, text := range []string{"", "hello\n", "-----\n  1ms\n"} {
		if all, err := fold(strings.NewReader(text)); err == nil {
			t.Errorf("%q: %+v", text, all)
		}
	}
}
