package page

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

var ctx = context.Background()

// shop returns the module of the tests.
var shop = struct {
	once sync.Once
	wasm []byte
}{}

func module(t testing.TB) []byte {
	t.Helper()
	shop.once.Do(func() { shop.wasm = hosttest.Build(t, "testdata/shop") })
	return shop.wasm
}

// site is the page under test, its host, and a browser.
type site struct {
	*Page
	t       testing.TB
	h       *hosttest.Host
	cookie  string
	prefix  string
	broken  *atomic.Bool // the handler charge fails
	actions []Action
}

// newSite returns a page over a host without workflows.
func newSite(t testing.TB, opts ...Option) *site {
	t.Helper()
	s := &site{t: t, broken: &atomic.Bool{}}
	var rates *Rates
	count := func(h *hosttest.Host) { rates = NewRates(h.Clock) }
	s.h = hosttest.New(t, count, hosttest.WithConfig(func(c *host.Config) { c.Events = rates.Events() }), hosttest.WithHandlers(func(h *host.Host) {
		h.HandleRawStep("charge", func(context.Context, []byte) ([]byte, error) {
			if s.broken.Load() {
				return nil, errors.New("the card was declined")
			}
			return []byte(`"paid"`), nil
		})
	}))
	record := WithAudit(func(_ *http.Request, a Action) { s.actions = append(s.actions, a) })
	s.Page = New(s.h.Host, append([]Option{WithClock(s.h.Clock), WithRates(rates), record}, opts...)...)
	s.prefix = s.o.prefix
	return s
}

// openSite returns a page without login, over a host with the shop.
func openSite(t testing.TB) *site {
	t.Helper()
	s := newSite(t, WithoutLogin())
	s.upload()
	return s
}

func (s *site) upload() {
	s.t.Helper()
	if _, err := s.h.UploadAll(ctx, "", module(s.t), host.AllowStep("*")); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) start(workflow, id string, input any) {
	s.t.Helper()
	if _, err := s.h.Start(ctx, workflow, input, host.WithRunID(id)); err != nil {
		s.t.Fatal(err)
	}
	s.h.Settle()
}

// request makes a request as a browser does. Headers are pairs of name and value; an empty value removes a header.
func (s *site) request(method, target, kind string, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	r := httptest.NewRequestWithContext(ctx, method, "http://127.0.0.1:7777"+s.prefix+target, body)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set("Origin", "http://127.0.0.1:7777")
	}
	if s.cookie != "" {
		r.AddCookie(&http.Cookie{Name: cookieName, Value: s.cookie})
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	s.h.Settle()
	return w
}

// get loads a page that must exist.
func (s *site) get(target string) string {
	s.t.Helper()
	w := s.request(http.MethodGet, target, "", nil)
	if w.Code != http.StatusOK {
		s.t.Fatalf("GET %s: %d %s", target, w.Code, w.Body)
	}
	return w.Body.String()
}

var tokenOf = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// post submits a form as the page has it, with the given values in its fields.
func (s *site) post(target string, values url.Values, headers ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	form := url.Values{}
	for _, with := range []string{target, "/upload"} { // a page without a form is posted to with a valid form token
		if m := tokenOf.FindStringSubmatch(s.request(http.MethodGet, with, "", nil).Body.String()); m != nil {
			form.Set("csrf", m[1])
			break
		}
	}
	for k, v := range values {
		form[k] = v
	}
	return s.request(http.MethodPost, target, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()), headers...)
}

// does submits a form that must be accepted, and returns the resulting page.
func (s *site) does(target string, values url.Values) string {
	s.t.Helper()
	w := s.post(target, values)
	if w.Code != http.StatusSeeOther {
		s.t.Fatalf("POST %s: %d %s", target, w.Code, w.Body)
	}
	return s.get(strings.TrimPrefix(w.Header().Get("Location"), s.prefix))
}

// has checks that a page contains a text, ignoring its tags.
func has(t testing.TB, page string, texts ...string) {
	t.Helper()
	plain := textOf(page)
	for _, text := range texts {
		if !strings.Contains(plain, text) {
			t.Errorf("the page does not say %q:\n%.1800s", text, plain)
		}
	}
}

var (
	tags   = regexp.MustCompile(`<[^>]*>`)
	blanks = regexp.MustCompile(`\s+`)
)

func textOf(page string) string {
	plain := tags.ReplaceAllString(page, " ")
	plain = strings.NewReplacer("&#34;", `"`, "&#39;", "'", "&amp;", "&", "&lt;", "<", "&gt;", ">", "&#43;", "+").Replace(plain)
	return strings.TrimSpace(blanks.ReplaceAllString(plain, " "))
}

// targets are all views.
func targets(run string) []string {
	list := []string{"/", "/runs", "/runs?status=failed&workflow=order&since=24h&where=item%3Dbook&order=oldest", "/runs?q=a", "/workflows",
		"/upload", "/schedules", "/limits", "/hosts", "/access", "/access/tokens", "/bulk/cancel?q=a", "/bulk/retry"}
	if run != "" {
		run = "/runs/" + run
		list = append(list, run, run+"/journal", run+"/log", run+"/output", run+"/entries/0", run+"/do/cancel", run+"/do/signal", run+"/do/restart",
			"/workflows/order", "/workflows/order/start", "/workflows/order/start?as=json", "/workflows/many/start")
	}
	return list
}

// TestEveryView loads every view of a host with no run, with one, and with many.
func TestEveryView(t *testing.T) {
	s := newSite(t, WithoutLogin())
	for _, target := range targets("") {
		s.get(target)
	}
	has(t, s.get("/"), "Nothing here yet")
	s.upload()
	has(t, s.get("/runs"), "There are no runs yet")
	s.start("order", "one", map[string]any{"item": "book"})
	for _, target := range targets("one") {
		page := s.get(target)
		if strings.Count(page, "<h1") != 1 || !strings.Contains(page, "<main ") {
			t.Errorf("%s has not one heading, or no main part", target)
		}
	}
	for i := range 120 {
		s.start("forever", fmt.Sprintf("run-%03d", i), nil)
	}
	for _, target := range targets("one") {
		s.get(target)
	}
	page := s.get("/runs")
	has(t, page, "run-119", "Next page")
	next := regexp.MustCompile(`rel="next" href="([^"]+)"`).FindStringSubmatch(page)
	if page := s.get(strings.ReplaceAll(next[1], "&amp;", "&")); strings.Contains(page, "run-119") || !strings.Contains(page, "run-069") {
		t.Error("the next page has other runs:", textOf(page))
	}
	has(t, s.get("/"), "120 waiting", "run-000", `waits for the signal "never"`)
	has(t, s.get("/runs?q=n-007"), "run-007")
	if w := s.request(http.MethodGet, "/runs?q=run-007", "", nil); w.Header().Get("Location") != "/runs/run-007" {
		t.Error("a whole id does not lead to its run:", w.Code, w.Header())
	}
	has(t, s.get("/runs?q=item%3Dbook"), "one")
}

// TestTwoClicks navigates from the overview to the cause of a failed run, and retries the run.
func TestTwoClicks(t *testing.T) {
	s := openSite(t)
	s.broken.Store(true)
	s.start("order", "o-1", map[string]any{"item": "book"})
	has(t, s.get("/runs/o-1"), `Step "charge" has failed 1 time; attempt 2 of 3 comes next, by host/charge`, "in 1min", "the card was declined")
	s.h.Advance(10 * time.Minute)
	has(t, s.get("/"), "Failed", "o-1", "the card was declined")
	page := s.get("/runs/o-1")
	has(t, page, `Failed: "charge" gave up after 3 attempts.`, "the card was declined", "Error code: STEP_FAILED, error.", "Handler: host/charge.", "charging failed", "3 attempts",
		"Restart from charge")
	s.broken.Store(false)
	has(t, s.get("/runs/o-1/do/retry"), "The failures that led to the end are forgotten")
	has(t, s.does("/runs/o-1/do/retry", nil), "The run goes on.", `Sleeps in "cool-down"`, "in 3d", "retried")
	s.h.Settle()
	has(t, s.does("/runs/o-1/do/wake?name=cool-down", url.Values{"name": {"cool-down"}}), `Waits for the signal "approve"`, "woken early")
	page = s.does("/runs/o-1/do/signal", url.Values{"name": {"approve"}, "payload": {`{"by":"Ada"}`}})
	has(t, page, "Completed", "parcel of book, approved by Ada")
	has(t, s.get("/"), "Nothing is stuck, nothing has failed, and nothing is late.")
	var did []string
	for _, a := range s.actions {
		did = append(did, fmt.Sprintf("%s %s %d %t", a.Pattern, a.Scope, a.Status, a.Changed))
	}
	const post = "POST /runs/{id}/do/{action} "
	if !slices.Equal(did, []string{post + "operate 303 true", post + "operate 303 true", post + "run 303 true"}) {
		t.Error("the audit has", did)
	}
}

// TestTakesUpdates shows what a run waits for besides updates, which it receives all the time, and does not offer a
// signal instead of them.
func TestTakesUpdates(t *testing.T) {
	s := newSite(t, WithoutLogin())
	if _, err := s.h.UploadAll(ctx, "", hosttest.Build(t, "../testdata/updates"), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	s.start("cart", "c-1", nil)
	page := s.get("/runs/c-1")
	has(t, page, `changed now Waits for the signal "done"`, `Takes the update "add"`, "Signal done")
	if strings.Contains(page, "Signal host/update/") || strings.Contains(page, `signal "host/update/`) {
		t.Error("an update is shown as a signal")
	}
	has(t, s.get("/runs"), `waits for the signal "done"`)
}

// TestTimeline checks the rows of a timeline.
func TestTimeline(t *testing.T) {
	s := openSite(t)
	s.start("naps", "n", nil)
	s.h.Advance(6 * time.Hour)
	has(t, s.get("/runs/n"), "sleep ×5", "nap-0 … nap-4", "clock", "Completed after 6h.", "Result", `"rested"`)
	s.start("parent", "p", nil)
	has(t, s.get("/runs/p"), `Waits for its child "kid" of forever`, `the-child is waiting: waits for the signal "never"`)
	has(t, s.get("/runs/the-child"), "child of p", `Waits for the signal "never"`)
	s.start("order", "late", map[string]any{"item": "pen"})
	s.h.Advance(11 * 24 * time.Hour)
	has(t, s.get("/runs/late"), "nobody approved", "expired")
	has(t, s.does("/runs/the-child/do/pause", nil), "Paused: nothing happens until it is unpaused.", "Unpause")
	has(t, s.does("/runs/the-child/do/unpause", nil), `Waits for the signal "never"`)
	has(t, s.does("/runs/the-child/do/terminate", nil), "Terminated after")
	has(t, s.get("/runs/p"), `Failed: "kid" gave up.`, "It was the child the-child .")
	has(t, s.does("/runs/late/do/restart", url.Values{"new": {"again"}}), "again", "Sleeps in")
	has(t, s.does("/runs/the-child/do/delete", nil), "The run was deleted.")
	has(t, s.does("/runs/again/do/cancel", nil), "Cancelled after")
}

// TestRefusedActions shows why an action is refused, with the form to correct it.
func TestRefusedActions(t *testing.T) {
	s := openSite(t)
	s.start("order", "o", map[string]any{"item": "book"})
	for _, c := range []struct {
		target string
		values url.Values
		status int
		text   string
	}{
		{"/runs/o/do/retry", nil, 409, ""},
		{"/runs/o/do/retry", url.Values{"version": {"x"}}, 400, `The version must be a number from 1, got "x".`},
		{"/runs/o/do/delete", nil, 409, ""},
		{"/runs/o/do/wake", url.Values{"name": {"no-such"}}, 409, "The run has no such sleep that has not ended."},
		{"/runs/o/do/signal", url.Values{"name": {"other"}}, 422, `The workflow receives the signals ["approve"], got "other".`},
		{"/runs/o/do/signal", url.Values{"name": {"approve"}, "payload": {"yes"}}, 422, `The payload must be JSON (a text stands in quotes), got "yes".`},
		{"/runs/o/do/signal", url.Values{"name": {"approve"}, "payload": {"7"}}, 400, "approve"},
		{"/runs/o/do/dance", nil, 404, `There is no action "dance" on a run.`},
		{"/runs/nobody/do/cancel", nil, 404, ""},
		{"/runs/o/do/trigger", nil, 404, ""},
	} {
		w := s.post(c.target, c.values)
		if w.Code != c.status || !strings.Contains(textOf(w.Body.String()), c.text) {
			t.Errorf("%s %v: %d %s", c.target, c.values, w.Code, textOf(w.Body.String()))
		}
	}
	for target, text := range map[string]string{"/runs/none": "not found", "/nowhere": "There is nothing at", "/runs?status=odd": "unknown status",
		"/runs?since=soon": "since must be a duration", "/runs?from=today": "from must be an instant", "/runs?where=a!%3D5": "!=",
		"/runs/o/entries/x": "Entries have numbers", "/runs/o/entries/999": "has no entry 999", "/runs/o?iteration=3": "from 0 to 0"} {
		w := s.request(http.MethodGet, target, "", nil)
		if w.Code < 400 || w.Code >= 500 || !strings.Contains(strings.ToLower(textOf(w.Body.String())), strings.ToLower(text)) {
			t.Errorf("%s: %d %s", target, w.Code, textOf(w.Body.String()))
		}
	}
}

// TestHostile has workflows, callers and addresses inject text that a browser could take for markup.
func TestHostile(t *testing.T) {
	s := openSite(t)
	evil := `"><script>alert(1)</script><img src=x onerror=alert(1)>'` + "</pre></svg></title>{{.}}\u2028"
	s.start("hostile", "evil", evil)
	s.start("order", "o", map[string]any{"item": evil, "note": "<b>"})
	list := append(targets("evil"), "/runs/evil/entries/1", "/runs/evil/entries/3", "/runs/evil/entries/5", "/runs/o",
		"/runs?q="+url.QueryEscape(evil), "/runs?where="+url.QueryEscape("k="+evil), "/runs?since="+url.QueryEscape(evil),
		"/runs?workflow="+url.QueryEscape(evil), "/runs/evil/do/signal?name="+url.QueryEscape(evil), "/runs/"+url.PathEscape(evil),
		"/upload?workflow="+url.QueryEscape(evil), "/runs/evil/output?topic="+url.QueryEscape(evil), "/?namespace="+url.QueryEscape(evil),
		"/login?next="+url.QueryEscape(evil), "/runs?done="+url.QueryEscape(evil))
	foreign := regexp.MustCompile(`(?i)^<(script|img|style|iframe|object|base)\b|\s(on[a-z]+|style)\s*=`)
	quoted := regexp.MustCompile(`"[^"]*"`)
	for _, target := range list {
		w := s.request(http.MethodGet, target, "", nil)
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
		if strings.Contains(w.Body.String(), "<script>") || strings.Contains(w.Body.String(), "<img") {
			t.Errorf("%s has what a workflow wrote", target)
		}
		for _, tag := range tags.FindAllString(w.Body.String(), -1) {
			if foreign.MatchString(quoted.ReplaceAllString(tag, "")) && tag != `<script src="/static/page.js" defer>` && tag != `<script src="/static/timeline.js" defer>` {
				t.Errorf("%s has %s", target, tag)
			}
		}
	}
	w := s.request(http.MethodGet, "/runs/evil/entries/0/input", "", nil)
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment") || strings.Contains(w.Header().Get("Content-Type"), "html") {
		t.Error(w.Code, w.Header())
	}
	if body := s.get("/runs/evil/entries/0"); strings.Contains(body, "seed") {
		t.Error("the seed of the run is shown")
	}
}

// TestHeaders checks the security headers of each answer, including errors and files.
func TestHeaders(t *testing.T) {
	s := openSite(t)
	for _, target := range []string{"/", "/nowhere", "/static/page.js", "/static/timeline.js", "/static/page.css", "/static/icon.svg", "/static/x", "/runs/nobody"} {
		w := s.request(http.MethodGet, target, "", nil)
		csp := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'; script-src 'self'; style-src 'self'") || strings.Contains(csp, "unsafe") ||
			!strings.Contains(csp, "frame-ancestors 'none'") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", target, w.Header())
		}
	}
	w := s.request(http.MethodGet, "/static/page.js", "", nil)
	if w.Header().Get("Content-Type") != "text/javascript; charset=utf-8" || !strings.Contains(w.Body.String(), `case "/"`) {
		t.Error(w.Header())
	}
	if w := s.request(http.MethodGet, "/static/page.js", "", nil, "If-None-Match", w.Header().Get("ETag")); w.Code != http.StatusNotModified {
		t.Error(w.Code)
	}
	w.Body.WriteString(s.get("/static/timeline.js"))
	for _, word := range []string{"eval(", "new Function", "innerHTML =", "insertAdjacentHTML", "document.write"} {
		if strings.Contains(w.Body.String(), word) {
			t.Errorf("the script has %q", word)
		}
	}
}

// TestPrefix mounts the page below a path prefix: each link and file exists there.
func TestPrefix(t *testing.T) {
	s := newSite(t, WithoutLogin(), WithPrefix("/admin/wf/"))
	s.upload()
	s.start("order", "..", map[string]any{"item": "book"})
	link := regexp.MustCompile(`(?:href|src|action)="([^"#]*)"`)
	for _, target := range targets("%2E%2E") {
		for _, m := range link.FindAllStringSubmatch(s.get(target), -1) {
			if !strings.HasPrefix(m[1], "/admin/wf/") {
				t.Fatalf("%s leads to %s", target, m[1])
			}
			to := strings.TrimPrefix(strings.NewReplacer("&amp;", "&", "&#43;", "+").Replace(m[1]), "/admin/wf")
			if w := s.request(http.MethodGet, to, "", nil); w.Code >= 400 {
				t.Errorf("%s leads to %s: %d", target, m[1], w.Code)
			}
		}
	}
	has(t, s.does("/runs/%2E%2E/do/pause", nil), "Paused")
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/admin/wf", nil)
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Header().Get("Location") != "/admin/wf/" {
		t.Error(w.Code, w.Header())
	}
}

// TestStart starts runs with the form of a schema, and with JSON.
func TestStart(t *testing.T) {
	s := openSite(t)
	page := s.get("/workflows/order/start")
	has(t, page, "item required", "What is ordered.", "amount", "gift")
	w := s.post("/workflows/order/start", url.Values{"as": {"fields"}, "field.item": {""}, "field.amount": {"-1"}})
	if w.Code != 422 || !strings.Contains(textOf(w.Body.String()), "does not fit to the workflow's schema") ||
		!strings.Contains(w.Body.String(), `value="-1"`) {
		t.Error(w.Code, textOf(w.Body.String()))
	}
	w = s.post("/workflows/order/start", url.Values{"as": {"fields"}, "field.item": {"book"}, "field.amount": {"many"}})
	if w.Code != 422 || !strings.Contains(textOf(w.Body.String()), `The field "amount" must be a number, got "many"`) {
		t.Error(w.Code, textOf(w.Body.String()))
	}
	page = s.does("/workflows/order/start", url.Values{"as": {"fields"}, "field.item": {"0123"}, "field.amount": {"12"}, "field.gift": {"true"},
		"id": {"f"}, "attributes": {"region=eu\n"}})
	has(t, page, "region=eu", `"item": "0123"`, `"amount": 12`, `"gift": true`)
	has(t, s.does("/workflows/order/start", url.Values{"as": {"json"}, "input": {`{"item":"pen"}`}, "in": {"1h"}, "id": {"j"}}),
		"Has not begun: its start is delayed.", "in 1h")
	for _, values := range []url.Values{{"as": {"json"}, "input": {"{"}}, {"as": {"json"}, "in": {"soon"}}, {"as": {"json"}, "attributes": {"x"}},
		{"as": {"json"}, "id": {"f"}, "input": {`{"item":"other"}`}}} {
		if w := s.post("/workflows/order/start", values); w.Code < 400 || w.Code >= 500 || !strings.Contains(w.Body.String(), `role="alert"`) {
			t.Errorf("%v: %d %s", values, w.Code, textOf(w.Body.String()))
		}
	}
}

// form makes the body of an upload.
func form(parts ...string) (kind string, body io.Reader) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i+1 < len(parts); i += 2 {
		if parts[i] == "module" {
			f, _ := w.CreateFormFile("module", "shop.wasm")
			_, _ = f.Write([]byte(parts[i+1]))
			continue
		}
		_ = w.WriteField(parts[i], parts[i+1])
	}
	_ = w.Close()
	return w.FormDataContentType(), &b
}

// TestUpload uploads a module, and shows why another one was refused.
func TestUpload(t *testing.T) {
	s := newSite(t, WithoutLogin())
	csrf := tokenOf.FindStringSubmatch(s.get("/upload"))[1]
	for _, c := range []struct {
		parts  []string
		status int
		text   string
	}{
		{[]string{"csrf", csrf, "workflow", "", "steps", "charge", "module", string(module(t))}, 200, "was inspected and compiled, and has 8 workflows."},
		{[]string{"csrf", csrf, "module", "no module"}, 400, "shop.wasm (9 bytes) was refused."},
		{[]string{"csrf", csrf, "module", ""}, 400, "Choose a file"},
		{[]string{"csrf", "wrong", "module", string(module(t))}, 403, "not of this session"},
		{[]string{"module", string(module(t)), "csrf", csrf}, 403, "not of this session"},
		{nil, 403, "not of this session"},
	} {
		kind, body := form(c.parts...)
		w := s.request(http.MethodPost, "/upload", kind, body)
		if w.Code != c.status || !strings.Contains(textOf(w.Body.String()), c.text) {
			t.Errorf("%.60q: %d %s", c.parts, w.Code, textOf(w.Body.String()))
		}
	}
	has(t, s.get("/workflows/order"), "step charge", "signal approve", "Schemas of the latest version")
	if w := s.request(http.MethodPost, "/upload", "text/plain", strings.NewReader("x")); w.Code != 400 {
		t.Error(w.Code)
	}
}

// TestSchedulesAndLimits shows schedules with their next instants, and limits with their queues.
func TestSchedulesAndLimits(t *testing.T) {
	s := openSite(t)
	_, err := s.h.Schedules().Create(ctx, "nightly", host.ScheduleSpec{Workflow: "forever", When: "0 3 * * *", Zone: "Europe/Berlin"})
	if err != nil {
		t.Fatal(err)
	}
	has(t, s.get("/schedules"), "nightly", "0 3 * * *", "Europe/Berlin", "in 18h")
	has(t, s.get("/schedules/nightly"), "2026-01-06 02:00:00 UTC", "Start now", "Pause")
	has(t, s.does("/schedules/nightly/do/pause-schedule", url.Values{"note": {"holidays"}}), "Paused: holidays.", "Resume")
	has(t, s.does("/schedules/nightly/do/trigger", nil), `Waits for the signal "never"`)
	has(t, s.does("/schedules/nightly/do/resume-schedule", nil), "1 run was started")
	if w := s.post("/schedules/nightly/do/cancel", nil); w.Code != 404 {
		t.Error(w.Code)
	}
	if _, err := s.h.WorkflowLimits().Set(ctx, host.WorkflowLimit{Workflow: "order", Concurrency: []string{"1"}}); err != nil {
		t.Fatal(err)
	}
	s.start("order", "first", map[string]any{"item": "book"})
	s.start("order", "second", map[string]any{"item": "book"})
	has(t, s.get("/limits"), "order 1 1 1")
	has(t, s.get("/runs/second"), "Waits for a slot: place 1 of 1.")
}

// TestLogin logs in; revoking the token ends the session.
func TestLogin(t *testing.T) {
	s := newSite(t)
	s.upload()
	s.start("order", "o", map[string]any{"item": "book"})
	text, token, err := s.h.Tokens().Create(ctx, host.TokenSpec{Scopes: []host.Scope{host.ScopeAdmin}, Name: "Ada's"})
	if err != nil {
		t.Fatal(err)
	}
	w := s.request(http.MethodGet, "/runs/o?part=1", "", nil)
	if w.Code != 303 || w.Header().Get("Location") != "/login?next=%2Fruns%2Fo%3Fpart%3D1" || strings.Contains(w.Body.String(), "book") {
		t.Error(w.Code, w.Header())
	}
	if w := s.request(http.MethodGet, "/runs/o", "", nil, "Sec-Fetch-Site", "cross-site"); w.Header().Get("Refresh") != "0; url=/runs/o" {
		t.Error("a link from elsewhere:", w.Code, w.Header())
	}
	for _, wrong := range []string{"", "wfh_wrong", strings.Repeat("x", 5000)} {
		if w := s.post("/login", url.Values{"token": {wrong}}); w.Code != 401 || w.Header().Get("Set-Cookie") != "" {
			t.Errorf("%.20q: %d %v", wrong, w.Code, w.Header())
		}
	}
	for next, want := range map[string]string{"/runs/o": "/runs/o", "": "/", "//evil.example": "/", "https://evil.example": "/", `/\evil`: "/"} {
		w = s.post("/login", url.Values{"token": {text}, "next": {next}})
		if w.Code != 303 || w.Header().Get("Location") != want {
			t.Errorf("%q: %d %v", next, w.Code, w.Header())
		}
	}
	cookie := w.Result().Cookies()[0] //nolint:bodyclose // of a recorder
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || strings.Contains(cookie.Value, "wfh_") {
		t.Error(cookie)
	}
	s.cookie = cookie.Value
	has(t, s.get("/runs/o"), "Ada's", "Log out", "Cancel")
	if err := s.h.Tokens().Revoke(ctx, token.ID); err != nil {
		t.Fatal(err)
	}
	if w := s.request(http.MethodGet, "/runs/o", "", nil); w.Code != 303 {
		t.Error("a revoked token is let in:", w.Code)
	}
	if w := s.request(http.MethodPost, "/runs/o/do/cancel", "application/x-www-form-urlencoded", nil); w.Code != 401 {
		t.Error("an action without a session:", w.Code)
	}
}

// TestSessionEnds ends sessions by logout and by time, and limits their number.
func TestSessionEnds(t *testing.T) {
	s := newSite(t)
	text, _, err := s.h.Tokens().Create(ctx, host.TokenSpec{Scopes: []host.Scope{host.ScopeAdmin}})
	if err != nil {
		t.Fatal(err)
	}
	enter := func() { s.cookie = s.post("/login", url.Values{"token": {text}}).Result().Cookies()[0].Value } //nolint:bodyclose // of a recorder
	enter()
	s.get("/")
	csrf := tokenOf.FindStringSubmatch(s.get("/"))[1]
	s.request(http.MethodPost, "/logout", "application/x-www-form-urlencoded", strings.NewReader("csrf="+url.QueryEscape(csrf)))
	if w := s.request(http.MethodGet, "/", "", nil); w.Code != 303 {
		t.Error("the session goes on after logging out")
	}
	enter()
	s.h.Advance(sessionIdle - time.Minute)
	s.get("/")
	s.h.Advance(sessionIdle - time.Minute)
	s.get("/")
	s.h.Advance(sessionIdle + time.Minute)
	if w := s.request(http.MethodGet, "/", "", nil); w.Code != 303 {
		t.Error("an idle session goes on")
	}
	for range maxSessions + 5 {
		s.sessions.begin("x")
	}
	if n := len(s.sessions.by); n > maxSessions {
		t.Error(n, "sessions")
	}
}

// TestForeignForms refuses forms of other sites: by their origin, and by the missing form token.
func TestForeignForms(t *testing.T) {
	for name, s := range map[string]*site{"with a login": newSite(t), "without": newSite(t, WithoutLogin())} {
		s.upload()
		s.start("order", "o", map[string]any{"item": "book"})
		text, _, err := s.h.Tokens().Create(ctx, host.TokenSpec{Scopes: []host.Scope{host.ScopeAdmin}})
		if err != nil {
			t.Fatal(err)
		}
		if s.o.people == nil {
			s.cookie = s.sessions.begin(text)
		}
		for _, headers := range [][]string{{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"},
			{"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "none", "Origin", ""}, {"Sec-Fetch-Site", "", "Origin", ""},
			{"Sec-Fetch-Site", "", "Origin", "https://evil.example"}, {"Origin", "http://127.0.0.1:7778"}} {
			for _, target := range []string{"/runs/o/do/terminate", "/login", "/logout", "/workflows/order/start", "/upload"} {
				if w := s.post(target, url.Values{"token": {text}}, headers...); w.Code != http.StatusForbidden {
					t.Errorf("%s: POST %s with %v: %d", name, target, headers, w.Code)
				}
			}
		}
		other := newSite(t, WithoutLogin())
		other.upload()
		other.start("order", "o", map[string]any{"item": "book"})
		for _, token := range []string{"", "x", tokenOf.FindStringSubmatch(other.get("/runs/o/do/cancel"))[1]} {
			if w := s.post("/runs/o/do/terminate", url.Values{"csrf": {token}}); w.Code != http.StatusForbidden {
				t.Errorf("%s: the token %q is accepted: %d", name, token, w.Code)
			}
		}
		if r, err := s.h.Get(ctx, "o"); err != nil || r.Status != host.Sleeping {
			t.Error(name, r.Status, err)
		}
		if w := s.request(http.MethodGet, "/runs/o/do/terminate", "", nil); w.Code != 200 {
			t.Error("the page of an action does it:", w.Code)
		}
	}
}

// TestScopes lets each scope see and do what it allows, in the namespace of its token.
func TestScopes(t *testing.T) {
	s := newSite(t)
	s.upload()
	s.start("order", "o", map[string]any{"item": "book"})
	enter := func(namespace string, scopes ...host.Scope) {
		t.Helper()
		text, _, err := s.h.Tokens().Create(ctx, host.TokenSpec{Scopes: scopes, Namespace: namespace})
		if err != nil {
			t.Fatal(err)
		}
		s.cookie = s.sessions.begin(text)
	}
	needs := map[string]host.Scope{"/runs/o/do/cancel": host.ScopeOperate, "/runs/o/do/signal": host.ScopeRun, "/workflows/order/start": host.ScopeRun,
		"/upload": host.ScopeUpload, "/runs/o": host.ScopeRead, "/": host.ScopeRead}
	for _, scopes := range [][]host.Scope{{host.ScopeRead}, {host.ScopeRead, host.ScopeRun}, {host.ScopeRead, host.ScopeOperate},
		{host.ScopeRead, host.ScopeUpload}, {host.ScopeWork}, {host.ScopeRun}} {
		enter("", scopes...)
		for target, scope := range needs {
			want := slices.Contains(scopes, scope) && (slices.Contains(scopes, host.ScopeRead) || scope == host.ScopeRun && strings.HasPrefix(target, "/workflows"))
			w := s.request(http.MethodGet, target, "", nil)
			if (w.Code == http.StatusOK) != want || !want && w.Code != http.StatusForbidden {
				t.Errorf("%v at %s: %d", scopes, target, w.Code)
			}
			if w := s.post(target, nil); !want && strings.Contains(target, "/do/") && w.Code != http.StatusForbidden {
				t.Errorf("%v may POST %s: %d", scopes, target, w.Code)
			}
		}
	}
	enter("", host.ScopeRead)
	for _, target := range []string{"/runs/o", "/workflows", "/workflows/order"} {
		if page := s.get(target); strings.Contains(page, "/do/") || strings.Contains(page, "/start") || strings.Contains(page, "/upload") {
			t.Errorf("%s offers what is not allowed", target)
		}
	}
	enter("team", host.ScopeAdmin)
	if page := s.get("/runs"); strings.Contains(page, `/runs/o"`) {
		t.Error("runs of another namespace are listed")
	}
	for _, target := range []string{"/runs?namespace=default", "/runs/o?namespace=default", "/runs/o/do/terminate?namespace=default"} {
		if w := s.request(http.MethodGet, target, "", nil); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	kind, body := form("csrf", tokenOf.FindStringSubmatch(s.get("/upload"))[1], "http", "127.0.0.1", "module", string(module(t)))
	if w := s.request(http.MethodPost, "/upload", kind, body); w.Code != http.StatusForbidden {
		t.Error("a grant of requests by a token of one namespace:", w.Code)
	}
}

// TestAuthentication lets an embedding program authenticate users.
func TestAuthentication(t *testing.T) {
	s := newSite(t, WithAuthentication(func(r *http.Request) (Caller, error) {
		if r.Header.Get("X-User") == "" {
			return Caller{}, ErrUnknown
		}
		return Caller{Token: host.Token{Scopes: []host.Scope{host.ScopeRead}}, Name: r.Header.Get("X-User")}, nil
	}))
	s.upload()
	if w := s.request(http.MethodGet, "/", "", nil); w.Code != http.StatusUnauthorized {
		t.Error(w.Code)
	}
	if w := s.request(http.MethodGet, "/workflows", "", nil, "X-User", "Ada"); w.Code != http.StatusOK {
		t.Error(w.Code)
	}
	if w := s.request(http.MethodGet, "/upload", "", nil, "X-User", "Ada"); w.Code != http.StatusForbidden {
		t.Error(w.Code)
	}
}

// many is the number of steps of the longest run in the tests; each step has two entries.
const many = 5000

// TestLongRun renders a run of 10,000 entries in parts.
func TestLongRun(t *testing.T) {
	s := openSite(t)
	s.start("many", "long", many)
	r, err := s.h.Get(ctx, "long")
	if err != nil || r.Entries < 2*many {
		t.Fatal(r.Entries, err)
	}
	page := s.get("/runs/long")
	has(t, page, "step-4999", `Sleeps in "rest"`, "1–100")
	if n := strings.Count(page, "data-row"); n > pageRows*3/2 {
		t.Error(n, "rows are shown")
	}
	if len(page) > 300<<10 {
		t.Error("the page has", len(page), "bytes")
	}
	if page := s.get("/runs/long?part=2"); !strings.Contains(page, "step-150") || strings.Contains(page, "step-99<") {
		t.Error(textOf(page))
	}
	has(t, s.get("/runs/long/journal"), "Earlier")
	has(t, s.get("/runs/long/journal?from=0"), "started", "Later")
}

// BenchmarkLongRun renders the page of a run of 10,000 entries.
func BenchmarkLongRun(b *testing.B) {
	s := openSite(b)
	s.start("many", "long", many)
	b.ResetTimer()
	for range b.N {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/runs/long", nil)
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
}
