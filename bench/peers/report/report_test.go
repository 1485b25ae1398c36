package report

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	one := func(round int, engine string, rate, late float64) Result {
		others := 10 * float64(round)
		return Result{Round: round, Engine: engine, Workload: "w", OthersPercent: &others,
			Figures: map[string]float64{"stepsPerS": rate, "lateP50Ms": late}}
	}
	table := Table{
		Rows: []Row{{"steps", "w", "stepsPerS", true}, {"lateness", "w", "lateP50Ms", false}, {"memory", "w", "restBytes", false},
			{"not measured", "v", "stepsPerS", true}},
		Engines: []string{"A", "B", "C", "D"},
		Results: []Result{one(1, "A", 2000, 3), one(1, "B", 1000, 1.5), one(1, "C", 400, 1),
			one(2, "A", 20000, 2), one(2, "B", 900, 100), one(2, "C", 500, 2),
			one(3, "A", 3000, 4), one(3, "B", 1100, 1.25), one(3, "C", 300, 3),
			{Round: 3, Engine: "D", Workload: "w", Error: "no disk"},
			{Round: 1, Engine: "A", Workload: "w", Figures: map[string]float64{"restBytes": 3 << 20}}},
	}
	var b strings.Builder
	if err := table.Write(&b); err != nil {
		t.Fatal(err)
	}
	const want = `| median of the rounds | A        | B       | C       | D      | A, to the best other |
|----------------------|----------|---------|---------|--------|----------------------|
| steps                | 3,000/s  | 1,000/s | 400/s   | failed | 3.00 × (B)           |
| lateness             | 3.00 ms  | 1.50 ms | 2.00 ms | failed | 0.50 × (B)           |
| memory               | 3.00 MiB | –       | –       | failed | –                    |
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	notes := table.Notes()
	if len(notes) != 2 || notes[0] != "Round 3, D, w failed: no disk" || !strings.Contains(notes[1], "used 20 % of one core") ||
		!strings.Contains(notes[1], "at most 30 %") {
		t.Errorf("%q", notes)
	}
	table.Spread = true
	if got := table.cell("stepsPerS", []float64{1, 2, 1234567}); got != "2.00/s (1.00/s … 1,234,567/s)" {
		t.Error(got)
	}
	if got := table.Figure("w", "lateP50Ms"); got != "2.00 ms" {
		t.Error(got)
	}
	if got := table.Figure("w", "nothing"); got != none {
		t.Error(got)
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		figure string
		v      float64
		want   string
	}{{"xPerS", 12345.6, "12,346/s"}, {"xMs", 0.123, "0.12 ms"}, {"xUs", 45.67, "45.7 µs"}, {"xBytes", 1 << 30, "1,024 MiB"},
		{"xS", 100, "100"}, {"xMs", -1234, "-1,234 ms"}, {"xMs", -123, "-123 ms"}} {
		if got := format(c.figure, c.v); got != c.want {
			t.Errorf("%s of %v is %q, want %q", c.figure, c.v, got, c.want)
		}
	}
}
