package main

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/httpapi"
	"github.com/wfhost/wfhost/host/page"
)

// nasty are numbers that do not fit into a float64, or that package json would write differently.
var nasty = []string{"9007199254740993", "-9223372036854775808", "9223372036854775807", "18446744073709551615", "1e400", "-1E-400",
	"0.30000000000000004", "0.1000000000000000055511151231257827", "1.0", "-0", "-0.0", "3.141592653589793238462643383279",
	"123456789012345678901234567890", "12345678901234567890123.4567890123"}

// numbered is a server for the workflows of testdata/numbers.
type numbered struct {
	t    *testing.T
	h    *hosttest.Host
	url  string
	page *page.Page

	restless bool // a worker has an attempt
}

func newNumbered(t *testing.T) *numbered {
	h := hosttest.New(t, hosttest.WithHandlers(func(h *host.Host) {
		h.HandleRawStep("echo", func(_ context.Context, in []byte) ([]byte, error) { return in, nil })
		if err := h.HandleRemote("fail"); err != nil {
			t.Error(err)
		}
	}))
	if _, err := h.UploadAll(t.Context(), "", buildGuest(t, "testdata/numbers"), host.AllowStep("*")); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(httpapi.New(h.Host, httpapi.Access{Local: "wfh_local"}))
	t.Cleanup(s.Close)
	t.Setenv("WFHOST_TOKEN", "wfh_local")
	return &numbered{t: t, h: h, url: s.URL, page: page.New(h.Host, page.WithoutLogin())}
}

// cli runs a command that must succeed and returns its output.
func (n *numbered) cli(args ...string) string {
	n.t.Helper()
	code, out, errs := command(append([]string{"--server", n.url}, args...)...)
	if code != exitOK {
		n.t.Fatalf("%v: %d %s", args, code, errs)
	}
	if !n.restless {
		n.h.Settle()
	}
	return out
}

func (n *numbered) get(h http.Handler, target string) string {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		n.t.Errorf("GET %s: %d %s", target, w.Code, w.Body)
	}
	return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(w.Body.String(), " "))
}

// api reads from the server.
func (n *numbered) api(path string, headers ...string) string {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, n.url+path, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer wfh_local")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(b)
}

// TestNumbersStay passes numbers to a run, and reads them back, in every possible way. Each number stays as it was
// written, and so do duplicate members and the order of members.
func TestNumbersStay(t *testing.T) {
	n := newNumbered(t)
	var all []string
	for i, number := range nasty {
		all = append(all, fmt.Sprintf(`"b%d":%s`, i, number))
	}
	payload := `{"z":1,"a":[` + strings.Join(nasty, ",") + `],"a":2,` + strings.Join(all, ",") + `,"t":"\u00e9\/é"}`
	n.cli("start", "pass", "--id", "r", "--input", payload, "--memo", `{"m":`+nasty[0]+`}`, "--signal", "told="+payload)
	twin := strings.Replace(payload, nasty[0], "9007199254740992", 1)
	n.cli("start", "pass", "--id", "twin", "--input", twin, "--signal", "told="+twin)
	surfaces := map[string]string{"query": n.cli("query", "r", "asked", payload), "update": n.cli("update", "r", "changed", payload)}
	n.cli("signal", "r", "end", "--key", "k", payload)
	file := filepath.Join(t.TempDir(), "r.wfrun")
	n.cli("export", "r", file)
	for name, args := range map[string]string{"result": "result r", "journal": "journal r", "journal as JSON": "journal r --format json",
		"followed journal": "journal r -f", "followed journal as JSON": "journal r -f --format json", "output": "output r",
		"output as JSON": "output r --format json", "followed output": "output r -f", "followed output as JSON": "output r -f --format json",
		"trace": "replay " + file + " --trace", "logs": "logs r"} {
		surfaces[name] = n.cli(strings.Fields(args)...)
	}
	surfaces["journal over HTTP"] = n.api("/v1/runs/r/journal")
	surfaces["journal by events"] = n.api("/v1/runs/r/journal", "Accept", "text/event-stream")
	surfaces["output over HTTP"] = n.api("/v1/runs/r/output")
	surfaces["result over HTTP"] = n.api("/v1/runs/r/result")
	surfaces["download from the page"] = n.get(n.page, "/runs/r/entries/0/input")
	c, err := client.New(n.url, client.WithToken("wfh_local"))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := client.Result[json.RawMessage](t.Context(), c, "r"); err != nil || string(v) != payload {
		t.Errorf("the client's result: %s %v", v, err)
	}
	for e, err := range c.Journal(t.Context(), "r", client.Newest, 0) {
		if err != nil {
			t.Fatal(err)
		}
		surfaces["journal of the client"] += string(e.Input) + string(e.Data)
	}
	n.cli("schedule", "create", "s", "pass", "--every", "1h", "--input", payload)
	surfaces["schedule"] = n.cli("schedule", "show", "s", "--format", "json")
	blank := regexp.MustCompile(`\s+`)
	want := blank.ReplaceAllString(payload, "")
	for name, text := range surfaces {
		if name == "logs" || name == "trace" {
			continue
		}
		if !strings.Contains(blank.ReplaceAllString(text, ""), want) {
			t.Errorf("%s: %s", name, text)
		}
	}
	if !strings.Contains(surfaces["trace"], nasty[0]) {
		t.Errorf("trace: %s", surfaces["trace"])
	}
	for _, text := range []string{n.cli("show", "r"), n.cli("show", "r", "--format", "json"), n.cli("runs", "--format", "json"), n.get(n.page, "/runs/r")} {
		if !strings.Contains(text, nasty[0]) {
			t.Errorf("the memo: %s", text)
		}
	}
	for _, target := range []string{"/runs/r/entries/0", "/runs/r/output"} {
		text := n.get(n.page, target)
		for _, number := range nasty {
			if !strings.Contains(text, number) {
				t.Errorf("%s has no %s: %s", target, number, text)
			}
		}
	}
	if text := n.get(n.page, "/runs/r/compare?with=twin"); !strings.Contains(text, "9007199254740992") || !strings.Contains(text, nasty[0]) {
		t.Errorf("the comparison finds no difference: %s", text)
	}
}

// TestNumbersOfWorkers passes numbers to a worker and back, in a result and in the details of a failure.
func TestNumbersOfWorkers(t *testing.T) {
	n := newNumbered(t)
	n.restless = true
	payload := "[" + strings.Join(nasty, ",") + "]"
	n.cli("start", "fails", "--id", "r", "--input", payload)
	take := func() *host.Attempt {
		list, err := n.h.Attempts().Take(t.Context(), "fail", host.TakeOptions{Max: 1, Lease: time.Minute, Wait: 30 * time.Second})
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return &list[0]
	}
	a := take()
	if string(a.Input) != payload {
		t.Errorf("the worker got %s", a.Input)
	}
	if err := n.h.Attempts().Fail(t.Context(), "fail", a.Lease, host.Failure{Message: "no", RetryAfter: -1, Details: []byte(payload)}); err != nil {
		t.Fatal(err)
	}
	n.h.Settle()
	blank := regexp.MustCompile(`\s+`)
	for _, args := range []string{"journal r", "journal r --format json"} {
		if text := blank.ReplaceAllString(n.cli(strings.Fields(args)...), ""); !strings.Contains(text, payload) {
			t.Errorf("%s: %s", args, text)
		}
	}
}
