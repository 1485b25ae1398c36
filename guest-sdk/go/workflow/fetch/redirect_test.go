package fetch_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestClientRedirects follows redirects in a guest according to CheckRedirect, each subject to the version's grants.
func TestClientRedirects(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := map[string]string{"/away": "/a", "/keep": "/a", "/elsewhere": "http://elsewhere.example/", "/loop": "/loop"}[r.URL.Path]
		status := http.StatusFound
		if r.URL.Path == "/keep" {
			status = http.StatusTemporaryRedirect
		}
		if to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(status)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = fmt.Fprint(w, r.Method, " ", string(body))
	}))
	defer service.Close()
	h := hosttest.New(t, hosttest.WithConfig(func(c *host.Config) {
		c.Secrets = func(string) (string, bool) { return "s3cr3t", true }
	}))
	ctx := context.Background()
	wasm := hosttest.Build(t, "testdata/redirects")
	if _, err := h.Upload(ctx, "redirects", wasm, host.AllowHTTP(service.URL), host.AllowSecret("KEY", service.URL, "X-Key")); err != nil {
		t.Fatal(err)
	}
	r, err := h.Start(ctx, "redirects", service.URL)
	if err != nil {
		t.Fatal(err)
	}
	got, err := host.Result[[]string](ctx, h, r.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"200 /a  GET  <nil>", "200 /a  POST x <nil>",
		`Get "http://elsewhere.example/": request not allowed: requests to http://elsewhere.example are not allowed: upload or run the version ` +
			"with --allow-http http://elsewhere.example, or host.AllowHTTP in a program that embeds the host",
		"302 /away /a  <nil>", `Get "/loop": stopped after 10 redirects`, "302 /away /a  <nil>", `Get "/a": not to /a`,
	}
	for i, w := range want {
		if i >= len(got) || got[i] != w {
			t.Errorf("%d: %q, not %q", i, got, w)
		}
	}
}
