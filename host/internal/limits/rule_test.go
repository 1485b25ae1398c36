package limits

import (
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
)

func TestParse(t *testing.T) {
	for _, text := range []string{"1", "5", "5 per input.customer", "1000000 per input", "100/1m", "1/1s per input.a.b", "10000/366d"} {
		if got := rule(t, text); got.String() != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, text := range []string{"", "0", "-1", "x", "1000001", "5 per", "5 of input.x", "5 per customer", "5 per input.", "5 per input..x",
		"5 per input x", "5 per input." + strings.Repeat("x", MaxPath)} {
		if r, err := ParseConcurrency(text); err == nil {
			t.Errorf("concurrency %q is %v", text, r)
		}
	}
	for _, text := range []string{"", "5", "0/1m", "5/", "5/x", "5/0s", "10001/1m", "5/367d", "5/1m per x", "/1m"} {
		if r, err := ParseRate(text); err == nil {
			t.Errorf("rate %q is %v", text, r)
		}
	}
	many := make(Rules, MaxRules+1)
	if many.Check() == nil || (Rules{rule(t, "5"), rule(t, "6")}).Check() == nil {
		t.Error("too many rules, or rules of the same runs, are allowed")
	}
	rules := Rules{rule(t, "5 per input.x"), rule(t, "100/1m")}
	if err := rules.Check(); err != nil {
		t.Error(err)
	}
	if got, err := DecodeRules(rules.Encode()); err != nil || !slices.Equal(got, rules) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := DecodeRules([]byte("x")); err == nil {
		t.Error("text is rules")
	}
	if l, err := DecodeRules(nil); err != nil || l != nil || l.Encode() != nil || l.Of(nil, 0) != nil {
		t.Error("no rules are some")
	}
	if CheckPriority(MaxPriority+1) == nil || CheckPriority(-MaxPriority) != nil {
		t.Error("priorities")
	}
}

func TestKeyOfInput(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 1000) + `"}`
	for _, c := range []struct{ path, input, want string }{
		{"input", ` "x" `, `"x"`}, {"input", `{"b":1,  "a":2}`, `{"b":1,"a":2}`}, {"input.a", `{"a":"\u0078"}`, `"x"`}, {"input.a", `{"a":"A\u0026B<"}`, `"A&B<"`},
		{"input.a.b", `{"a":{"b":7}}`, `7`}, {"input.a", `{}`, ``}, {"input.a.b", `{"a":7}`, ``}, {"input.a", ``, ``},
		{"input.a", `no JSON`, ``}, {"input.a", `{"a":null}`, `null`}, {"input.a", `[1]`, ``},
	} {
		got := Rules{{Max: 1, Per: c.path}}.Of([]byte(c.input), 3)
		if got.Keys[c.path] != c.want || got.Priority != 3 {
			t.Errorf("%s of %s is %q, want %q", c.path, c.input, got.Keys[c.path], c.want)
		}
	}
	if got := (Rules{{Max: 1, Per: "input.a"}}).Of([]byte(long), 0).Keys["input.a"]; len(got) != 71 {
		t.Errorf("a long key is %q", got)
	}
}

// The keys of cells fit into the store's limit.
func TestSizes(t *testing.T) {
	if n := 1 + 2*nameBytes + 9 + len(store.Incarnation{}); n > store.MaxCellKey {
		t.Error(n)
	}
	if n := 1 + 128; n > store.MaxCellKey {
		t.Error(n)
	}
}
