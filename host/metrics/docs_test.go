package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// family is a metric as a host exposes it.
type family struct {
	kind   string
	labels []string
}

// exposed returns what a host exposes after every kind of event has happened.
func exposed(t *testing.T) map[string]family {
	t.Helper()
	w := newWorld(t)
	w.m.Watch(w.Host.Host)
	w.start("nap", "n")
	w.start("step", "s")
	w.Advance(1e12)
	families, err := w.m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	h, _, _ := newCluster(t).add("a")
	w.m.Watch(h)
	ofCluster, err := w.m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]family{}
	for _, f := range append(families, ofCluster...) {
		x := family{kind: strings.ToLower(f.GetType().String())}
		for _, l := range f.GetMetric()[0].GetLabel() {
			x.labels = append(x.labels, l.GetName())
		}
		all[f.GetName()] = x
		if help := f.GetHelp(); strings.HasPrefix(f.GetName(), prefix) && (!strings.HasSuffix(help, ".") || len(help) < 10) {
			t.Errorf("the help of %s is no sentence: %q", f.GetName(), help)
		}
		if strings.HasPrefix(f.GetName(), prefix) && (x.kind == "counter") != strings.HasSuffix(f.GetName(), "_total") {
			t.Errorf("%s is a %s: counters, and no others, end with _total", f.GetName(), x.kind)
		}
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/operate/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestDocumented compares the table of docs/operate/metrics.md with what a host exposes.
func TestDocumented(t *testing.T) {
	all := exposed(t)
	row := regexp.MustCompile("(?m)^\\| `(wfhost_\\w+)` \\| (\\w+) \\| (.*?) ?\\| ")
	label := regexp.MustCompile("`(\\w+)`")
	rows := map[string]bool{}
	text := read(t, "metrics.md")
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		var labels []string
		for _, l := range label.FindAllStringSubmatch(m[3], -1) {
			labels = append(labels, l[1])
		}
		f, ok := all[m[1]]
		rows[m[1]] = true
		if !ok {
			t.Errorf("%s is documented, no host has it", m[1])
			continue
		}
		slices.Sort(labels)
		if f.kind != m[2] || !slices.Equal(f.labels, labels) {
			t.Errorf("%s is a %s with %v, documented is a %s with %v", m[1], f.kind, f.labels, m[2], labels)
		}
	}
	for _, name := range wfhosts(all) {
		if !rows[name] {
			t.Errorf("%s is not documented", name)
		}
	}
	used(t, all, "metrics.md", text)
}

// TestAlerts parses the rules as Prometheus does, and checks that the series in their expressions exist.
func TestAlerts(t *testing.T) {
	all := exposed(t)
	var doc struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "alerts.yaml")), &doc); err != nil || len(doc.Groups) != 1 {
		t.Fatal(err, len(doc.Groups))
	}
	names := map[string]bool{}
	for _, r := range doc.Groups[0].Rules {
		if names[r.Alert] || !regexp.MustCompile(`^Wfhost[A-Z]\w+$`).MatchString(r.Alert) || r.Labels["severity"] == "" ||
			r.Annotations["summary"] == "" {
			t.Errorf("%+v", r)
		}
		names[r.Alert] = true
		if at := r.Annotations["runbook_url"]; at != "" && !headed(t, at) {
			t.Errorf("%s: there is no %s", r.Alert, at)
		}
		if used(t, all, r.Alert, r.Expr) == 0 && r.Expr != `up{job="wfhost"} == 0` {
			t.Errorf("%s says nothing of a host: %s", r.Alert, r.Expr)
		}
	}
	for _, want := range []string{"Down", "StoreFailed", "DiskFull", "Overdue", "Late", "StuckRuns", "CommitsSlow", "AttemptsFail",
		"HostGone", "PartitionsUnowned", "LeaseMarginSmall", "ForwardsFail", "ClockOff"} {
		if !names["Wfhost"+want] {
			t.Errorf("there is no rule Wfhost%s", want)
		}
	}
}

// headed reports whether a page of docs/operate has the heading that an address on the web names.
func headed(t *testing.T, address string) bool {
	page, anchor, ok := strings.Cut(strings.TrimPrefix(address, "https://github.com/wfhost/wfhost/blob/main/docs/operate/"), "#")
	for line := range strings.Lines(read(t, page)) {
		heading, is := strings.CutPrefix(line, "## ")
		if ok && is && strings.ReplaceAll(strings.ToLower(strings.TrimSpace(heading)), " ", "-") == anchor {
			return true
		}
	}
	return false
}

// TestDashboard parses the dashboard as Grafana does, and checks that the series in its panels exist.
func TestDashboard(t *testing.T) {
	all := exposed(t)
	var doc struct {
		Title  string
		Panels []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, RefID string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "dashboard.json")), &doc); err != nil || doc.Title != "wfhost" {
		t.Fatal(err, doc.Title)
	}
	ids, places, n := map[int]bool{}, map[[2]int]bool{}, 0
	for _, p := range doc.Panels {
		place := [2]int{p.GridPos.X, p.GridPos.Y}
		if ids[p.ID] || places[place] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d, %q at %v", p.ID, p.Title, p.GridPos)
		}
		ids[p.ID], places[place] = true, true
		if (p.Type == "row") != (len(p.Targets) == 0) {
			t.Errorf("panel %q has %d targets", p.Title, len(p.Targets))
		}
		for _, x := range p.Targets {
			n++
			if used(t, all, p.Title, x.Expr) == 0 {
				t.Errorf("panel %q says nothing of a host: %s", p.Title, x.Expr)
			}
		}
	}
	if n < 20 {
		t.Errorf("the dashboard has %d queries", n)
	}
}

var (
	// selector matches a series in an expression, with the braces after it.
	selector = regexp.MustCompile(`\b((?:wfhost|process|go)_[a-z_]*[a-z])\b(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"`)
	grouping = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// used checks that a host exposes the series of an expression, that they have the labels in their braces, and that
// the expression groups by labels that one of them has. It returns the number of series.
func used(t *testing.T, all map[string]family, where, expr string) (n int) {
	t.Helper()
	labels := []string{"job", "instance", "le"}
	for _, m := range selector.FindAllStringSubmatch(expr, -1) {
		name := m[1]
		f, ok := all[name]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, cut := strings.CutSuffix(name, suffix); cut && !ok && all[base].kind == "histogram" {
				f, ok = all[base], true
			}
		}
		if !ok {
			t.Errorf("%s: no host has %s", where, name)
			continue
		}
		n++
		labels = append(labels, f.labels...)
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(f.labels, l[1]) && !slices.Contains([]string{"job", "instance"}, l[1]) {
				t.Errorf("%s: %s has no label %s, it has %v", where, name, l[1], f.labels)
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for _, l := range strings.Split(g[1], ",") {
			l = strings.TrimSpace(l)
			if !slices.Contains(labels, l) {
				t.Errorf("%s: by %s, which nothing in it has: %s", where, l, expr)
			}
		}
	}
	for _, pair := range []string{"()", "{}", "[]"} {
		if strings.Count(expr, pair[:1]) != strings.Count(expr, pair[1:]) {
			t.Errorf("%s: %s are not closed: %s", where, pair, expr)
		}
	}
	return n
}
