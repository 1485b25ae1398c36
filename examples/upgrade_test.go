package examples_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// record makes the recorded runs anew: go test ./examples -run TestUpgradeGolden -record
var record = flag.Bool("record", false, "record the runs of testdata anew, with the code as it was")

const recorded = "upgrade/testdata/runs"

// TestUpgradeGolden replays runs that were recorded with the code as it was against the code as it is. A change that would leave
// them stuck fails here, before it is uploaded.
func TestUpgradeGolden(t *testing.T) {
	if *record {
		h := hosttest.New(t)
		if _, err := h.Upload(t.Context(), "upgrade", build(t, "upgrade/before")); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"shipped", "packing"} { // one has ended, the other one sleeps
			if _, err := h.Start(t.Context(), "upgrade", "Paris", host.WithRunID(id)); err != nil {
				t.Fatal(err)
			}
			if id == "shipped" {
				h.Finish(id)
			}
			h.Settle()
		}
		for _, id := range []string{"packing", "shipped"} {
			h.Record(recorded, id)
		}
	}
	hosttest.Golden(t, recorded, build(t, "upgrade"))
}

// TestUpgradeGoldenWrong has code that does not fit say where it diverges, in each recorded run.
func TestUpgradeGoldenWrong(t *testing.T) {
	files, err := filepath.Glob(recorded + "/*" + host.ArchiveSuffix)
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	h := hosttest.New(t)
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		a, err := host.ReadArchive(f)
		if err != nil {
			t.Fatal(err)
		}
		r, err := h.ReplayArchive(t.Context(), a, host.ReplayOptions{Module: build(t, "upgrade/wrong")})
		const want = `replay differs from the journal at entry 2: the journal has sleep "packing", the workflow did body "check"`
		if err != nil || r.Reason != want {
			t.Errorf("%s: %q, %v", path, r.Reason, err)
		}
	}
}
