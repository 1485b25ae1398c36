package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestCompare finds the first difference between two runs: in their inputs, in the outcome of a step, or in their
// calls.
func TestCompare(t *testing.T) {
	s := openSite(t)
	s.start("order", "good", map[string]any{"item": "book", "amount": 3})
	s.start("order", "twin", map[string]any{"item": "book", "amount": 3})
	s.start("order", "other", map[string]any{"item": "lamp", "amount": 3})
	page := s.get("/runs/good/compare")
	has(t, page, "Newest runs of the workflow", "other", "twin")
	page = s.get("/runs/good/compare?with=twin")
	has(t, page, "Both runs make the same 5 calls, with the same payloads.", "twin is sleeping.")
	page = s.get("/runs/good/compare?with=other")
	has(t, page, "They part at start “order”: input.", `"item": "book" "item": "lamp"`, `set_attribute “item”`, "input")
	page = s.get("/runs/good/compare?with=other&at=2")
	has(t, page, "step “charge” in both", "Outcome: the same in both.")
	s.broken.Store(true)
	s.start("order", "failed", map[string]any{"item": "book", "amount": 3})
	s.h.Advance(10 * time.Minute)
	s.broken.Store(false)
	page = s.get("/runs/good/compare?with=failed")
	has(t, page, "They part at step “charge”: outcome.", "step_failure 3 attempts", "the card was declined", "emit “progress”",
		"only in the first run", "failed is failed.")
	if err := s.h.Retry(ctx, "failed", 0); err != nil { // which voids what differs
		t.Fatal(err)
	}
	s.h.Settle()
	has(t, s.get("/runs/good/compare?with=failed"), "Both runs make the same 5 calls, with the same payloads.", "1 call differs only in attempts")
	for target, want := range map[string]int{"/runs/good/compare?with=nobody": 404, "/runs/good/compare?with=twin&at=99": 400,
		"/runs/good/compare?with=twin&at=x": 400, "/runs/nobody/compare": 404} {
		if w := s.request(http.MethodGet, target, "", nil); w.Code != want {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	has(t, s.request(http.MethodGet, "/runs/good/compare?with=nobody", "", nil).Body.String(), "not found", "Newest runs of the workflow")
}

// TestCompareSignals compares the payloads of signals, which are in other entries.
func TestCompareSignals(t *testing.T) {
	s := openSite(t)
	for id, by := range map[string]string{"a": "Ada", "b": "Bob"} {
		s.start("order", id, map[string]any{"item": "book"})
		if _, err := s.h.Wake(ctx, id, "cool-down"); err != nil {
			t.Fatal(err)
		}
		s.h.Settle()
		s.does("/runs/"+id+"/do/signal", url.Values{"name": {"approve"}, "payload": {fmt.Sprintf(`{"by":%q}`, by)}})
	}
	has(t, s.get("/runs/a/compare?with=b"), "They part at signal_wait “approve”: result.", `"by": "Ada" "by": "Bob"`, "completed")
}

// TestAlign pairs equal calls of two lists.
func TestAlign(t *testing.T) {
	list := func(names string) (l []*moment) {
		for _, n := range strings.Fields(names) {
			l = append(l, &moment{Kind: "step", Name: n})
		}
		return l
	}
	for _, c := range []struct{ a, b, want string }{
		{"1 2 3", "1 2 3", "1=1 2=2 3=3"},
		{"1 2 3", "1 3", "1=1 2=- 3=3"},
		{"1 3", "1 2 3", "1=1 -=2 3=3"},
		{"1 2 4", "1 3 4", "1=1 2=- -=3 4=4"},
		{"1", "", "1=-"},
		{"", "1 2", "-=1 -=2"},
		{"1 2", "3 4", "1=- -=3 2=- -=4"},
	} {
		var got []string
		for _, p := range align(list(c.a), list(c.b)) {
			name := func(m *moment) string {
				if m == nil {
					return "-"
				}
				return m.Name
			}
			got = append(got, name(p.A)+"="+name(p.B))
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%q and %q: %s, want %s", c.a, c.b, text, c.want)
		}
	}
}

// TestMerge aligns lines.
func TestMerge(t *testing.T) {
	var got []string
	for _, l := range merge(strings.Fields("a b c d e"), strings.Fields("a x c e f")) {
		got = append(got, l.Class+":"+l.A+"/"+l.B)
	}
	if text := strings.Join(got, " "); text != "same:a/a changed:b/x same:c/c first:d/ same:e/e second:/f" {
		t.Error(text)
	}
	d := diffOf("Input", []byte(`{"a":1,"b":[1,2,3,4,5,6,7,8,9,10]}`), []byte(`{"a":2,"b":[1,2,3,4,5,6,7,8,9,10]}`), false)
	if n := len(d.Lines); n != 6 || d.Lines[1].Class != "changed" || d.Lines[5].N != 10 {
		t.Errorf("%+v", d.Lines)
	}
	if d := diffOf("Input", []byte("null"), nil, false); len(d.Lines) != 1 || d.Lines[0].Class != "first" {
		t.Errorf("%+v", d.Lines)
	}
}

// TestCompareLong compares runs of 1,000 entries; equal entries are shown as one line.
func TestCompareLong(t *testing.T) {
	s := openSite(t)
	s.start("many", "a", 500)
	s.start("many", "b", 499)
	page := s.get("/runs/a/compare?with=b")
	has(t, page, "They part at start “many”: input.", "calls are the same", "only in the first run", "step-499")
	if len(page) > 100<<10 {
		t.Error("the page has", len(page), "bytes")
	}
}

// BenchmarkCompare compares two runs of 10,000 entries.
func BenchmarkCompare(b *testing.B) {
	s := openSite(b)
	s.start("many", "a", many)
	s.start("many", "b", many)
	b.ResetTimer()
	for range b.N {
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/runs/a/compare?with=b", nil)); w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
}
