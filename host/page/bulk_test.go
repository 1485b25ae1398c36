package page

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
)

var idOf = regexp.MustCompile(`<input type="hidden" name="id" value="([^"]*)">`)

// confirm submits the form of a bulk action as its page has it.
func (s *site) confirm(target string, values url.Values) string {
	s.t.Helper()
	form := url.Values{}
	for _, m := range idOf.FindAllStringSubmatch(s.get(target), -1) {
		form.Add("id", m[1])
	}
	for k, x := range values {
		form[k] = x
	}
	w := s.post(target, form)
	if w.Code != http.StatusOK {
		s.t.Fatalf("POST %s: %d %s", target, w.Code, textOf(w.Body.String()))
	}
	return w.Body.String()
}

func (s *site) statusOf(id string) host.Status {
	s.t.Helper()
	r, err := s.h.Get(ctx, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.Status
}

// TestBulk retries, pauses and deletes the runs that a filter selects, and no others.
func TestBulk(t *testing.T) {
	s := openSite(t)
	s.broken.Store(true)
	for i := range 3 {
		s.start("order", fmt.Sprint("o-", i), map[string]any{"item": "book"})
	}
	s.start("forever", "f", nil)
	s.h.Advance(time.Hour)
	s.broken.Store(false)
	has(t, s.get("/runs?status=failed"), "Act on all that match", "Retry …")
	page := s.get("/bulk/retry?status=failed,waiting&since=24h")
	has(t, page, "Retry 3 runs?", "3 failed", "1 other run that the filters select is left alone", "Created within 24h", "What happens to each of them.",
		"The failures that led to the end are forgotten")
	for id, want := range map[string]host.Status{"o-0": host.Failed, "f": host.Waiting} {
		if got := s.statusOf(id); got != want {
			t.Errorf("the page of an action does it: %s is %s", id, got)
		}
	}
	if err := s.h.Delete(ctx, "o-2"); err != nil { // meanwhile
		t.Fatal(err)
	}
	form := url.Values{"id": {"o-0", "o-1", "o-2", "f"}}
	w := s.post("/bulk/retry?status=failed,waiting&since=24h", form)
	has(t, w.Body.String(), "Retry: 2 runs were changed", "2 runs of 4 runs.", "2 runs refused it:", "o-2", "f ")
	if s.statusOf("o-0") != host.Sleeping || s.statusOf("o-1") != host.Sleeping || s.statusOf("f") != host.Waiting {
		t.Error(s.statusOf("o-0"), s.statusOf("o-1"), s.statusOf("f"))
	}
	has(t, s.confirm("/bulk/pause?workflow=order", nil), "Pause: 2 runs were changed")
	has(t, s.confirm("/bulk/unpause?status=paused", nil), "Unpause: 2 runs were changed")
	has(t, s.confirm("/bulk/terminate?q=o-1", nil), "Terminate: 1 run was changed")
	has(t, s.get("/bulk/delete?q=o-0"), "No run that the filters select can be given this.")
	has(t, s.confirm("/bulk/delete?where=item%3Dbook", nil), "Delete: 1 run was changed")
	if _, err := s.h.Get(ctx, "o-1"); err == nil {
		t.Error("o-1 is there")
	}
	if a := s.actions[0]; a.Pattern != "POST /bulk/{action}" || a.Scope != host.ScopeOperate || !a.Changed || a.Status != 200 {
		t.Errorf("%+v", a)
	}
}

// TestBulkIsConfirmed refuses unconfirmed actions, and actions that one confirmation cannot cover.
func TestBulkIsConfirmed(t *testing.T) {
	s := openSite(t)
	s.start("forever", "f", nil)
	has(t, s.get("/bulk/cancel"), "Cancel 1 run?", "Nothing is filtered: these are all runs of the namespace.")
	w := s.post("/bulk/cancel", url.Values{"id": {"f"}})
	if has(t, w.Body.String(), "confirm that this is meant"); w.Code != http.StatusBadRequest || s.statusOf("f") != host.Waiting {
		t.Error(w.Code, s.statusOf("f"))
	}
	for target, want := range map[string]int{"/bulk/dance?q=f": 404, "/bulk/wake?q=f": 404, "/bulk/cancel?status=odd": 400, "/bulk/cancel?since=soon": 400} {
		if w := s.request(http.MethodGet, target, "", nil); w.Code != want {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	ids := url.Values{"id": slices.Repeat([]string{"f"}, maxBulk+1)}
	if w := s.post("/bulk/cancel?q=f", ids); w.Code != http.StatusBadRequest || !strings.Contains(textOf(w.Body.String()), "at most 1000 runs at once, got 1001") {
		t.Error(w.Code, textOf(w.Body.String()))
	}
	if w := s.post("/bulk/cancel?q=f", nil); w.Code != http.StatusBadRequest {
		t.Error(w.Code)
	}
	has(t, s.confirm("/bulk/cancel", url.Values{"all": {"true"}}), "Cancel: 1 run was changed")
}

// TestMisspeltFilters refuses an unknown filter: ignoring it would select all runs.
func TestMisspeltFilters(t *testing.T) {
	s := openSite(t)
	s.start("forever", "f", nil)
	s.h.Advance(time.Second)
	for target, want := range map[string]string{
		"/bulk/cancel?workflw=nothere":           `There is no parameter "workflw" here. Those that there are: workflow, status, where,`,
		"/bulk/cancel?workflow=forever&attr.k=v": `There is no parameter "attr.k" here.`,
		"/bulk/cancel?cursor=1.f":                `There is no parameter "cursor" here.`,
		"/bulk/cancel?workflow=%zz":              "The parameters of the address cannot be read",
		"/runs?Status=failed":                    `There is no parameter "Status" here.`,
		"/runs?status=failed;workflow=forever":   "The parameters of the address cannot be read",
		"/runs?ordr=oldest&since=24h":            `There is no parameter "ordr" here.`,
	} {
		w := s.request(http.MethodGet, target, "", nil)
		if w.Code != http.StatusBadRequest {
			t.Errorf("GET %s: %d", target, w.Code)
		}
		has(t, textOf(w.Body.String()), want)
	}
	w := s.post("/bulk/cancel?workflw=nothere", url.Values{"id": {"f"}, "all": {"true"}})
	if w.Code != http.StatusBadRequest || s.statusOf("f").Terminal() {
		t.Error(w.Code, s.statusOf("f"))
	}
	for _, target := range []string{"/bulk/cancel", "/runs"} {
		has(t, s.get(target+"?workflow=forever&status=waiting&where=&since=24h&from=&before=&q=&order=oldest&namespace=default"), "f")
	}
	has(t, s.get("/runs?cursor=&done=delete"), "f")
}
