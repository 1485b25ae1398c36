package typescript_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/wfhost/wfhost/host"
)

// TestFetch aborts requests that a server does not answer, and looks at what an answer has.
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
	const timeout = "TimeoutError: the time is over"
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
