package page

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestMigrate checks the runs of a version against another one, and migrates those that fit.
func TestMigrate(t *testing.T) {
	s := openSite(t)
	s.start("order", "o-1", map[string]any{"item": "book"})
	has(t, s.get("/workflows/order"), "none live")
	if _, err := s.h.Upload(ctx, "order", hosttest.Build(t, "testdata/changed")); err != nil { // which does something else
		t.Fatal(err)
	}
	if _, err := s.h.Upload(ctx, "order", hosttest.Build(t, "testdata/grown"), host.AllowStep("*")); err != nil { // which does more at the end
		t.Fatal(err)
	}
	has(t, s.get("/workflows/order"), "Check 1 run Migrate")
	has(t, s.get("/workflows/order/versions/2/do/check"), "Check against version 2 ?", "order; 1 live run of other versions", "Nothing changes.")
	report := func(target string, values url.Values) string {
		t.Helper()
		w := s.post(target, values)
		if w.Code != http.StatusOK {
			t.Fatal(w.Code, textOf(w.Body.String()))
		}
		return w.Body.String()
	}
	has(t, report("/workflows/order/versions/2/do/check", nil), "0 of 1 run would do the same under version 2.", "1 run diverges.",
		`o-1 1 sleeping diverges at entry 2: the journal has set_attribute "item", the workflow did sleep "nap"`)
	has(t, report("/workflows/order/versions/3/do/check", nil), "The run would do the same under version 3.", "Migrate 1 run")
	version := func(want uint32) {
		t.Helper()
		if r, err := s.h.Get(ctx, "o-1"); err != nil || r.Version != want {
			t.Error(r.Version, err)
		}
	}
	version(1)
	has(t, report("/workflows/order/versions/3/do/migrate", url.Values{"from": {"2"}}), "0 runs go on under version 3.")
	has(t, report("/workflows/order/versions/2/do/migrate", nil), "0 runs go on under version 2.", "They stay under their version")
	version(1)
	has(t, report("/workflows/order/versions/3/do/migrate", url.Values{"from": {"1"}}), "1 run goes on under version 3.")
	version(3)
	has(t, s.get("/runs/o-1"), "migrated", "from version 1 to 3")
	a := s.actions[len(s.actions)-1]
	if a.Pattern != "POST /workflows/{workflow}/versions/{version}/do/{action}" || a.Scope != host.ScopeOperate || !a.Changed {
		t.Errorf("%+v", a)
	}
	for target, want := range map[string]int{"/workflows/order/versions/9/do/check": 404, "/workflows/order/versions/x/do/check": 404,
		"/workflows/order/versions/0/do/check": 404, "/workflows/order/versions/1/do/dance": 404, "/workflows/none/versions/1/do/check": 404} {
		if w := s.request(http.MethodGet, target, "", nil); w.Code != want {
			t.Errorf("GET %s: %d", target, w.Code)
		}
		if w := s.post(target, nil); w.Code != want {
			t.Errorf("POST %s: %d", target, w.Code)
		}
	}
	if w := s.post("/workflows/order/versions/1/do/check", url.Values{"from": {"x"}}); w.Code != http.StatusBadRequest {
		t.Error(w.Code)
	}
}

// TestStuckUnderAVersion shows which versions fit the journal of a stuck run, and retries it under one.
func TestStuckUnderAVersion(t *testing.T) {
	s := openSite(t)
	s.stuckOrder("o-1")
	has(t, s.get("/runs/o-1"), "The code of version 2 does something else than the run has done so far.", "the next page says which do")
	page := s.get("/runs/o-1/do/retry")
	has(t, page, "2 no the run is stuck under it", "1 yes")
	if !strings.Contains(page, `name="version" value="1"`) {
		t.Error("version 1 is not chosen")
	}
	if r, err := s.h.Get(ctx, "o-1"); err != nil || r.Status != host.Stuck || r.Version != 2 {
		t.Error("the page has changed the run:", r.Status, r.Version, err)
	}
	if err := s.h.Workflows().DeleteVersion(ctx, "order", 1); err != nil {
		t.Fatal(err)
	}
	has(t, s.get("/runs/o-1/do/retry"), "No version does what the run has done so far.")
}
