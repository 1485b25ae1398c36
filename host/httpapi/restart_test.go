package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestPlanOfARestartOverHTTP asks what restarts would keep and repeat: nothing is started, and the plan equals the
// host's.
func TestPlanOfARestartOverHTTP(t *testing.T) {
	a := newAPI(t, Access{})
	a.clocks("../testdata/clocks")
	a.begin("waits", "r", map[string]any{"First": "sleep", "Kind": "sleep", "Ms": 1000})
	a.h.Advance(time.Minute)
	plan := func(query string) (p host.RestartPlan) {
		t.Helper()
		w := a.call(local, http.MethodPost, "/v1/runs/r/restart?dry_run=true"+query, "")
		if err := json.Unmarshal(w.Body.Bytes(), &p); w.Code != http.StatusOK || err != nil {
			t.Fatal(w.Code, w.Body, err)
		}
		return p
	}
	if p := plan(""); p.Run != "r" || p.Version != 1 || p.Refused != "" || len(p.Kept) != 0 || len(p.Repeated) == 0 {
		t.Errorf("%+v", p)
	}
	p := plan("&from=wait%200&id=again&version=1&iteration=0&keep_undone=true")
	if p.From != "wait 0" || len(p.Kept) == 0 || p.Kept[0].Name != "first sleep" || p.Repeated[0].Name != "wait 0" || p.Repeated[0].Kind != "sleep" {
		t.Errorf("%+v", p)
	}
	a.is(a.call(local, http.MethodGet, "/v1/runs/again", ""), http.StatusNotFound, "not_found")
	a.is(a.call(local, http.MethodPost, "/v1/runs/r/restart?dry_run=true&from=none", ""), http.StatusNotFound, "not_found")
	a.is(a.call(local, http.MethodPost, "/v1/runs/r/restart?dry_run=true&iteration=9", ""), http.StatusNotFound, "not_found")
	if w := a.call(local, http.MethodPost, "/v1/runs/r/restart?dry_run=true&iteration=first", ""); w.Code/100 != 4 {
		t.Error(w.Code, w.Body)
	}
}

// TestMovedTimersOverHTTP migrates a run with an open time.Sleep to code with a longer one, as a caller who may read
// and as one who may not. The answer has the new wake time, and shows the latter nothing of the journal.
func TestMovedTimersOverHTTP(t *testing.T) {
	for _, reads := range []bool{true, false} {
		a := newAPI(t, Access{})
		a.clocks("../testdata/clocks")
		a.begin("naps", "r", "time.Sleep")
		if _, err := a.h.Upload(context.Background(), "naps", hosttest.Build(t, "../testdata/clocks/longer")); err != nil {
			t.Fatal(err)
		}
		a.h.Advance(30 * time.Minute)
		scopes := []host.Scope{host.ScopeOperate}
		if reads {
			scopes = append(scopes, host.ScopeRead)
		}
		w := a.call(a.token(host.TokenSpec{Scopes: scopes}), http.MethodPost, "/v1/workflows/naps/migrate", `{"to":2}`)
		reports, sum := linesOf(t, w.Body.String())
		if w.Code != http.StatusOK || sum == nil || sum.Migrated != 1 || len(reports) != 1 {
			t.Fatal(w.Code, w.Body)
		}
		a.h.Settle()
		r, err := a.h.Get(context.Background(), "r")
		if want := hosttest.Epoch.Add(10 * time.Hour); err != nil || !r.Wake.Equal(want) {
			t.Errorf("it wakes at %v, want %v: %v", r.Wake, want, err)
		}
		told := len(reports[0].Notes) == 1 && strings.Contains(reports[0].Notes[0], r.Wake.UTC().Format(time.RFC3339))
		if told != reads || !reads && len(reports[0].Notes) > 0 {
			t.Errorf("reads %t: %q", reads, reports[0].Notes)
		}
	}
}

// clocks uploads a version of the workflows in a folder.
func (a *api) clocks(dir string) {
	a.t.Helper()
	if _, err := a.h.UploadAll(context.Background(), "", hosttest.Build(a.t, dir), host.AllowStep("*")); err != nil {
		a.t.Fatal(err)
	}
}

func (a *api) begin(workflow, id string, input any) {
	a.t.Helper()
	if _, err := a.h.Start(context.Background(), workflow, input, host.WithRunID(id)); err != nil {
		a.t.Fatal(err)
	}
	a.h.Settle()
}
