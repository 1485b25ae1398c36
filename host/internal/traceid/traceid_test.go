package traceid

import (
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
)

const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestParse(t *testing.T) {
	for header, want := range map[string]string{
		caller:                               caller,
		" " + caller + "\t":                  caller,
		caller[:53] + "00":                   caller[:53] + "00",
		caller[:53] + "03":                   caller, // flags that are not known
		"cc" + caller[2:]:                    caller, // a version that is not known
		"cc" + caller[2:] + "-more":          caller,
		"cc" + caller[2:] + "more":           "",
		caller + "-more":                     "",
		"ff" + caller[2:]:                    "",
		strings.ToUpper(caller):              "",
		caller[:54]:                          "",
		"":                                   "",
		strings.Replace(caller, "-", "_", 1): "",
		strings.Replace(caller, "4bf92f3577b34da6a3ce929d0e0e4736", strings.Repeat("0", 32), 1): "",
		strings.Replace(caller, "00f067aa0ba902b7", strings.Repeat("0", 16), 1):                 "",
		strings.Replace(caller, "4bf", "4bx", 1):                                                "",
	} {
		if got := Normal(header); got != want {
			t.Errorf("%q is %q, not %q", header, got, want)
		}
	}
}

// A run is in the trace of its caller, below the caller's span, and an attempt below the run's. Runs and attempts differ.
func TestSpans(t *testing.T) {
	parent, _ := Parse(caller)
	i, other := store.Incarnation{1}, store.Incarnation{2}
	run := OfRun(i, caller)
	if run.Trace != parent.Trace || run.Parent != parent.Span || run.Span == parent.Span || !run.Sampled {
		t.Errorf("a run below %v is %v", parent, run)
	}
	if c := OfRun(i, caller[:53]+"00"); c.Sampled || c.Trace != parent.Trace {
		t.Errorf("a run of a trace that is not recorded is %v", c)
	}
	own := OfRun(i, "rubbish")
	if own.Parent != [8]byte{} || own.Trace == parent.Trace || own.Span != run.Span || !own.Sampled || own != OfRun(i, "") {
		t.Errorf("a run without a caller is %v", own)
	}
	if b := OfRun(other, ""); b.Trace == own.Trace || b.Span == own.Span {
		t.Errorf("two runs are %v and %v", own, b)
	}
	first := Attempt{i, caller, "key", 1}
	a := first.Context()
	if a.Trace != run.Trace || a.Parent != run.Span || a.Span == run.Span {
		t.Errorf("an attempt below %v is %v", run, a)
	}
	if b := (Attempt{i, caller, "key", 2}).Context(); b.Span == a.Span {
		t.Error("two attempts have one span")
	}
	if got := Header(With(t.Context(), first)); got != a.String() || Header(t.Context()) != "" {
		t.Errorf("the header is %q, not %q", got, a)
	}
}
