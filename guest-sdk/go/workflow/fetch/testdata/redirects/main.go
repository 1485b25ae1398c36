// The guest of TestClientRedirects: it says what each kind of client makes of a redirect.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
	"github.com/wfhost/wfhost/guest-sdk/go/workflow/fetch"
)

func init() {
	workflow.Register("redirects", func(ctx context.Context, base string) ([]string, error) {
		return workflow.Do(ctx, "get", func(s workflow.Step) ([]string, error) { return all(s, base), nil })
	})
}

func main() {}

func all(ctx context.Context, base string) []string {
	manual := &http.Client{Transport: fetch.Transport{}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	refuse := &http.Client{Transport: fetch.Transport{}, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		return errors.New("not to " + r.URL.Path)
	}}
	var out []string
	tell := func(c *http.Client, method, path, secret string) {
		req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader("x"))
		if err == nil && secret != "" {
			req.Header.Set("X-Key", secret)
		}
		var res *http.Response
		if err == nil {
			res, err = c.Do(req)
		}
		if err != nil {
			out = append(out, strings.ReplaceAll(err.Error(), base, ""))
			return
		}
		body, err := io.ReadAll(res.Body)
		text := fmt.Sprint(res.StatusCode, " ", res.Request.URL.Path, " ", res.Header.Get("Location"), " ", string(body), " ", err)
		out = append(out, text)
	}
	tell(fetch.Client, "POST", "/away", "")
	tell(fetch.Client, "POST", "/keep", "")
	tell(fetch.Client, "GET", "/elsewhere", "")
	tell(fetch.Client, "GET", "/away", "{{secret:KEY}}")
	tell(fetch.Client, "GET", "/loop", "")
	tell(manual, "GET", "/away", "")
	tell(refuse, "GET", "/away", "")
	return out
}
