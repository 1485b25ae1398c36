package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestParseRefuses(t *testing.T) {
	for says, args := range map[string][]string{
		"name the commit":          {},
		`unexpected argument "x"`:  {"-base", "a", "x"},
		"from 1 to 100, got 0":     {"-base", "a", "-rounds", "0"},
		"at least 100ms, got 1ms":  {"-base", "a", "-for", "1ms"},
		"no benchmark matches":     {"-base", "a", "-only", "none"},
		"error parsing regexp":     {"-base", "a", "-only", "("},
		"flag provided but not de": {"-bass", "a"},
	} {
		if _, err := parse(args, io.Discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", args, err, says)
		}
	}
}

// TestVerdict: a figure is worse if it is so in each round, and by more than 3 % in the median.
func TestVerdict(t *testing.T) {
	for i, c := range []struct {
		more       bool
		base, head []float64
		want       string
	}{
		{false, []float64{10, 10, 10}, []float64{11, 10.5, 12}, "worse"},
		{true, []float64{10, 10, 10}, []float64{11, 10.5, 12}, "better"},
		{false, []float64{10, 10, 10}, []float64{11, 9.9, 12}, ""},
		{false, []float64{10, 20, 10}, []float64{10.2, 20.1, 10.3}, ""},
		{false, []float64{10, 10}, []float64{5, 6}, "better"},
		{true, []float64{10, 10}, []float64{5, 6}, "worse"},
		{false, []float64{0, 10}, []float64{5, 6}, ""},
	} {
		m := Measurement{More: c.more, Base: c.base, Head: c.head}
		if m.settle(); m.verdict() != c.want {
			t.Errorf("%d: %q, want %q: %+v", i, m.verdict(), c.want, m)
		}
	}
	if median([]float64{3, 1, 2}) != 2 || median([]float64{4, 1, 2, 3}) != 2.5 {
		t.Error("medians are wrong")
	}
}

// script is a build that prints what a benchmark would.
func script(t *testing.T, commit, text string) *build {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "wfhost")
	if err := os.WriteFile(exe, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return &build{commit: commit, exe: exe}
}

// TestCompare runs two programs that stand for builds.
func TestCompare(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no sh")
	}
	const figures = `{"stepsPerS": %d, "cpuPerStepUs": %d, "stepP50Us": 2000, "stepP99Us": null}`
	o := options{rounds: 3, span: time.Second, only: regexp.MustCompile("^steps-go-16$")}
	base := script(t, "0123456789", fmt.Sprintf("echo '"+strings.Replace(figures, "null", "3000", 1)+"'", 100, 50))
	head := script(t, "abcdef0123+", fmt.Sprintf("echo '"+strings.Replace(figures, "null", "3000", 1)+"'", 50, 40))
	r, err := compare(t.Context(), o, base, head, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.write(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"| | | 01234567 | abcdef01 with changes | ratio |",
		"| steps-go-16 | steps in a second | 100/s | 50.0/s | 0.50 | 0.50 … 0.50 | worse |",
		"|  | CPU time of a step | 50.0 µs | 40.0 µs | 0.80 | 0.80 … 0.80 | better |",
		"|  | step, p50 | 2.00 ms | 2.00 ms | 1.00 | 1.00 … 1.00 |  |", "Medians of 3 rounds"} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("%s\nhas no %q", b.String(), line)
		}
	}
	if len(r.Figures) != 4 || len(r.Figures[0].Base) != 3 || math.Abs(r.Figures[1].Ratio-0.8) > 1e-9 {
		t.Errorf("%+v", r)
	}
	for says, x := range map[string]string{`has no figure "stepP99Us"`: fmt.Sprintf("echo '"+figures+"'", 1, 1),
		"output is no JSON": "echo hello", "out of luck": "echo out of luck >&2; exit 1"} {
		if _, err := compare(t.Context(), o, base, script(t, "abc", x), io.Discard); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// TestPlan: each benchmark has a name of its own.
func TestPlan(t *testing.T) {
	names := map[string]bool{}
	for _, m := range plan(time.Second, regexp.MustCompile("")) {
		if names[m.name] || len(m.figures) == 0 {
			t.Error(m.name)
		}
		names[m.name] = true
	}
	if len(names) < 20 {
		t.Error(names)
	}
}
