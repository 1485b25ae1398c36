package page

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
)

var (
	// goText matches package fmt's output for values without a text of their own, the zero time, and what html/template
	// refuses.
	goText = regexp.MustCompile(`0x[0-9a-f]{6,}|%!|&amp;\{|&\{|%7B0|map\[|&lt;nil&gt;|<nil>|\{\d+ [\d\[{&]|ZgotmplZ|0001-01-01|\(0x|status\(\d+\)|kind\(\d+\)`)
	hrefs  = regexp.MustCompile(`(?:href|action|src)="([^"]*)"`)
	digits = regexp.MustCompile(`[0-9]+`)
)

// perShape limits the visited addresses that differ only in numbers.
const perShape = 6

// TestCrawl follows all links and forms in all views of a host with much data: each target exists and shows no Go
// values.
func TestCrawl(t *testing.T) {
	s := newSite(t, WithoutLogin())
	s.demo()
	s.define(`{"name": "drawn", "steps": [{"name": "rest", "type": "sleep", "duration": "1h"}]}`)
	s.start("drawn", "drawn-1", nil)
	s.start("hostile", "hostile-1", `a "text" {with} <signs> & 0`)
	for _, id := range []string{"twin-a", "twin-b"} {
		s.start("order", id, map[string]any{"item": id, "amount": 1})
	}
	if _, _, err := s.h.Tokens().Create(ctx, host.TokenSpec{Scopes: []host.Scope{host.ScopeRead}, Name: "reader"}); err != nil {
		t.Fatal(err)
	}
	todo := []string{"/", "/runs/twin-a/compare?with=twin-b", "/runs/order-60/compare?with=order-70", "/runs?status=failed", "/access"}
	seen, shapes, views := map[string]bool{}, map[string]int{}, map[string]bool{}
	for len(todo) > 0 {
		target := todo[0]
		todo = todo[1:]
		shape := digits.ReplaceAllString(target, "0")
		if seen[target] || shapes[shape] >= perShape {
			continue
		}
		seen[target] = true
		shapes[shape]++
		w := s.request(http.MethodGet, target, "", nil)
		if w.Code != http.StatusOK && w.Code != http.StatusSeeOther {
			t.Errorf("GET %s: %d", target, w.Code)
		}
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			continue
		}
		body := w.Body.String()
		if found := goText.FindStringIndex(body); found != nil {
			t.Errorf("GET %s shows %q", target, body[max(0, found[0]-80):min(len(body), found[1]+40)])
		}
		base, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range hrefs.FindAllStringSubmatch(body, -1) {
			to, err := base.Parse(html.UnescapeString(m[1]))
			if err != nil || goText.MatchString(m[1]) {
				t.Errorf("%s links to %q: %v", target, m[1], err)
				continue
			}
			if to.Host == "" && to.Path != "/logout" {
				to.Fragment = ""
				todo = append(todo, to.String())
			}
		}
		if path, _, _ := strings.Cut(shape, "?"); true {
			views[path] = true
		}
	}
	for _, part := range []string{"/compare", "/graph", "/journal", "/log", "/output", "/entries/0", "/do/", "/start", "/schedules/", "/access", "/limits"} {
		if !slices.ContainsFunc(keys(views), func(v string) bool { return strings.Contains(v, part) }) {
			t.Errorf("no link led to %s", part)
		}
	}
	t.Logf("%d pages", len(seen))
}

func keys(m map[string]bool) (list []string) {
	for k := range m {
		list = append(list, k)
	}
	return list
}
