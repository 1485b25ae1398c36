package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
)

// TestScheduleScopes: a token that may not start runs makes no schedule that does, and one that may not end runs makes none end.
func TestScheduleScopes(t *testing.T) {
	a := newAPI(t, Access{})
	a.upload("", "nap", nap())
	body := `{"id":"s","workflow":"nap","when":"@daily"}`
	if w := a.call(local, http.MethodPost, "/v1/schedules", body); w.Code != http.StatusCreated {
		t.Fatal(w.Code, w.Body)
	}
	for _, c := range []struct {
		scopes                               []host.Scope
		read, create, backfill, pause, start int
		end                                  int
	}{
		{[]host.Scope{host.ScopeRead}, 200, 403, 403, 403, 403, 403},
		{[]host.Scope{host.ScopeRun}, 403, 403, 403, 403, 200, 403},
		{[]host.Scope{host.ScopeOperate}, 403, 403, 403, 200, 403, 403},
		{[]host.Scope{host.ScopeOperate, host.ScopeRun}, 403, 409, 200, 200, 200, 200},
	} {
		token := a.token(host.TokenSpec{Scopes: c.scopes})
		for _, x := range []struct {
			method, path, body string
			want               int
		}{
			{http.MethodGet, "/v1/schedules", "", c.read},
			{http.MethodGet, "/v1/schedules/s", "", c.read},
			{http.MethodGet, "/v1/schedules/s/next", "", c.read},
			{http.MethodPost, "/v1/schedules", body, c.create},
			{http.MethodPut, "/v1/schedules/s", `{"workflow":"nap","when":"@hourly"}`, c.backfill},
			{http.MethodPost, "/v1/schedules/s/backfill", `{"from":"2026-01-04T00:00:00Z","to":"2026-01-05T00:00:00Z","all":true}`, c.backfill},
			{http.MethodPost, "/v1/schedules/s/pause", "{}", c.pause},
			{http.MethodPost, "/v1/schedules/s/resume", `{"note":"x"}`, c.pause},
			{http.MethodPost, "/v1/schedules/s/trigger", `{"overlap":"allow"}`, c.start},
			{http.MethodPost, "/v1/schedules/s/trigger", `{"overlap":"terminate-other"}`, c.end},
		} {
			w := a.call(token, x.method, x.path, x.body, "Content-Type", "application/json")
			if w.Code != x.want {
				t.Errorf("%v: %s %s: %d, want %d: %s", c.scopes, x.method, x.path, w.Code, x.want, w.Body)
			}
		}
	}
	for body, want := range map[string]string{
		`{"id":"s2","workflow":"nap","when":"never"}`:                                                                              `"never" is neither an instant`,
		`{"id":"s2","workflow":"nap","when":"@daily","jitter":"x"}`:                                                                "jitter: ",
		`{"id":"s/2","workflow":"nap","when":"@daily"}`:                                                                            "1 to 96",
		`{"id":"s2","workflow":"nap","when":"@daily","input":` + strings.Repeat(" ", 5) + `"` + strings.Repeat("x", 66_000) + `"}`: "the limit is 65536",
	} {
		w := a.call(local, http.MethodPost, "/v1/schedules", body)
		if w.Code/100 != 4 || !strings.Contains(w.Body.String(), want) && !strings.Contains(w.Body.String(), strings.ReplaceAll(want, `"`, `\"`)) {
			t.Errorf("%.80s: %d %s, want %q", body, w.Code, w.Body, want)
		}
	}
}
