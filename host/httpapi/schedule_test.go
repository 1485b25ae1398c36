package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host"
)

// TestScheduleScopes: a token that may not start or end runs cannot create a schedule that does.
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

// TestScheduleRoundTrip puts the answer of a GET: the input is unchanged, whether it is JSON or not, and a concurrent
// update is not lost.
func TestScheduleRoundTrip(t *testing.T) {
	a := newAPI(t, Access{})
	a.upload("", "nap", nap())
	for _, input := range []string{"90m", `{"a":[1,"<"]}`, "", "null", "\xff\x00"} {
		_, err := a.h.Schedules().Create(t.Context(), "s", host.ScheduleSpec{Workflow: "nap", Input: []byte(input), When: "@daily"})
		if err != nil {
			t.Fatal(err)
		}
		shown := a.call(local, http.MethodGet, "/v1/schedules/s", "").Body.String()
		var spec ScheduleSpec
		if err := json.Unmarshal([]byte(shown), &spec); err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{http.StatusOK, http.StatusConflict} { // the second one would undo the first one
			w := a.call(local, http.MethodPut, "/v1/schedules/s", string(body), "Content-Type", "application/json")
			if w.Code != want || want == http.StatusConflict && !strings.Contains(w.Body.String(), "its revision is 2, and 1 was to be") {
				t.Errorf("%q: %d %s, want %d", input, w.Code, w.Body, want)
			}
		}
		s, err := a.h.Schedules().Get(t.Context(), "s")
		if got := string(s.Spec.Input); err != nil || got != input && got != `{"a":[1,"\u003c"]}` || s.Spec.Revision != 2 {
			t.Errorf("input %q of revision %d, want %q, %v", got, s.Spec.Revision, input, err)
		}
		spec.Input, spec.Bytes, spec.Revision = json.RawMessage("1"), "MQ==", 0
		for _, both := range []bool{true, false} {
			if !both {
				spec.Input, spec.Bytes = nil, "?"
			}
			body, _ = json.Marshal(spec)
			w := a.call(local, http.MethodPut, "/v1/schedules/s", string(body), "Content-Type", "application/json")
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "must be base64") {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
		if err := a.h.Schedules().Delete(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
	}
}
