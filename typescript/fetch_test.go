package typescript_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/wfhost/wfhost/host"
)

// TestFetch aborts requests that a server does not answer, and checks the properties of an answer.
func TestFetch(t *testing.T) {
	over := make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			select {
			case <-r.Context().Done():
			case <-over:
			}
			return
		}
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2; Expires=Wed, 21 Oct 2026 07:28:00 GMT")
		fmt.Fprint(w, r.Header.Values("X-A"))
	}))
	defer service.Close()
	defer close(over)
	p := load(t, "fetch.ts", host.AllowHTTP(service.URL))
	p.begin("aborts", "aborts", service.URL+"/slow")
	var got map[string]string
	if err := json.Unmarshal([]byte(p.ends("aborts")), &got); err != nil {
		t.Fatal(err)
	}
	const timeout = "TimeoutError: The operation was aborted due to timeout"
	for name, want := range map[string]string{"timeout": timeout, "any": timeout, "timer": "thrown: too slow", "job": "thrown: later",
		"request": timeout, "passed": timeout, "before": "thrown: before",
		"other": "TypeError: fetch failed: a timer of the step was due that might have aborted its signal, so that the request was " +
			"given up, and did not abort it: give fetch AbortSignal.timeout(ms)",
		"outside": "TypeError: fetch: the signal was made outside of the step, which has a copy of it that never ends: make one in " +
			"the step, such as AbortSignal.timeout(ms); step(name, fn, { signal }) withdraws a step that has not begun",
		"none": "RangeError: a duration must be a number of milliseconds from 0 to 253402300799999, got NaN"} {
		if got[name] != want {
			t.Errorf("%s: %s, not %s", name, got[name], want)
		}
	}
	p.begin("denied", "denied", "https://example.com")
	want := "run denied failed: fetch failed: requests to https://example.com are not allowed: upload or run the version with " +
		"--allow-http https://example.com, or host.AllowHTTP in a program that embeds the host"
	if got := p.ends("denied"); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
	p.begin("answers", "answers", service.URL)
	want = `[["a=1","b=2; Expires=Wed, 21 Oct 2026 07:28:00 GMT"],"a=1, b=2; Expires=Wed, 21 Oct 2026 07:28:00 GMT",2,"[1, 2]",` +
		`"there are no streams here, a body comes as a whole: read it by text(), json(), bytes() or arrayBuffer()"]`
	if got := p.ends("answers"); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
}

// TestFetchRedirects checks that fetch handles redirects as Node does, except for error messages.
func TestFetchRedirects(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "/a", http.StatusFound)
		case "/away/2":
			w.Header().Set("Location", "/away")
			w.WriteHeader(http.StatusMovedPermanently)
		case "/keep":
			http.Redirect(w, r, "/a", http.StatusTemporaryRedirect)
		case "/gone":
			w.WriteHeader(http.StatusFound) // without a Location
		default:
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			fmt.Fprint(w, r.Method, " ", string(body))
		}
	}))
	defer service.Close()
	p := load(t, "fetch.ts", host.AllowHTTP(service.URL))
	p.begin("redirects", "redirects", service.URL)
	var got []string
	if err := json.Unmarshal([]byte(p.ends("redirects")), &got); err != nil {
		t.Fatal(err)
	}
	failed := func(path string) string {
		return "TypeError: fetch failed: " + path + " is redirected, and the request says that this is an error"
	}
	page := "<a href=\"/a\">Found</a>.\n\n"
	for i, want := range []string{
		"200 basic false /a  GET ", "200 basic true /a  GET ", "200 basic true /a  GET ", "302 basic false /gone  ",
		"200 basic false /a  GET ", "302 basic false /away /a " + page, "301 basic false /away/2 /away ", "302 basic false /gone  ",
		"200 basic false /a  GET ", failed("/away"), failed("/away/2"), failed("/gone"),
		"TypeError: redirect must be follow, manual, error; got never", "TypeError: a request must not have the method TRACE",
		"TypeError: a request must not have the method CONNECT",
		"200 basic true /a  GET ", "200 basic true /a  POST x", "200 basic false /a  patch ", "302 false basic",
	} {
		if i >= len(got) || got[i] != want {
			t.Errorf("%d: %q, not %q", i, got[min(i, len(got)-1)], want)
		}
	}
}
