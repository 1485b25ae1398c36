package egress

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
)

// redirecting is a service whose /to/STATUS?LOCATION redirects, and whose other paths show the request.
func redirecting(t *testing.T) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, ok := strings.CutPrefix(r.URL.Path, "/to/"); ok {
			n, err := strconv.Atoi(status)
			if err != nil {
				t.Error(err)
			}
			if r.URL.RawQuery != "" {
				w.Header()["Location"] = []string{strings.ReplaceAll(r.URL.RawQuery, "%25", "%")}
			}
			w.WriteHeader(n)
			_, _ = io.WriteString(w, "moved")
			return
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/down/")); err == nil && n > 0 {
			w.Header().Set("Location", fmt.Sprintf("/down/%d", n-1))
			w.WriteHeader(http.StatusFound)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		text, err := json.Marshal(map[string]any{"method": r.Method, "body": string(body), "type": r.Header.Get("Content-Type"),
			"auth": r.Header.Get("Authorization"), "cookie": r.Header.Get("Cookie"), "own": r.Header.Get("X-Own"), "referer": r.Header.Get("Referer")})
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(text)
	}))
	t.Cleanup(s.Close)
	return s
}

// TestRedirects compares methods, bodies and headers of redirected requests with the fetch standard.
func TestRedirects(t *testing.T) {
	s, other := redirecting(t), redirecting(t)
	p := NewPolicy([]string{s.URL, other.URL}, []string{}, nil)
	headers := map[string][]string{"Content-Type": {"text/plain"}, "Authorization": {"Bearer x"}, "Cookie": {"a=1"}, "X-Own": {"o"}}
	for _, c := range []struct {
		method string
		status int
		to     string
		want   string // method, body, type, auth, cookie, own
	}{
		{"POST", 301, "/x", "GET,,,Bearer x,a=1,o"}, {"POST", 302, "/x", "GET,,,Bearer x,a=1,o"}, {"POST", 303, "/x", "GET,,,Bearer x,a=1,o"},
		{"POST", 307, "/x", "POST,b,text/plain,Bearer x,a=1,o"}, {"POST", 308, "/x", "POST,b,text/plain,Bearer x,a=1,o"},
		{"PUT", 301, "/x", "PUT,b,text/plain,Bearer x,a=1,o"}, {"PUT", 302, "/x", "PUT,b,text/plain,Bearer x,a=1,o"},
		{"PUT", 303, "/x", "GET,,,Bearer x,a=1,o"}, {"DELETE", 302, "/x", "DELETE,b,text/plain,Bearer x,a=1,o"},
		{"POST", 307, other.URL + "/x", "POST,b,text/plain,,,o"}, {"POST", 302, other.URL + "/x", "GET,,,,,o"},
	} {
		r := Request{Method: c.method, URL: s.URL + "/to/" + strconv.Itoa(c.status) + "?" + c.to, Headers: headers}
		res, body, err := Do(context.Background(), p, r, []byte("b"))
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		var got map[string]string
		if err := json.Unmarshal(body, &got); err != nil {
			t.Errorf("%+v: %s", c, body)
			continue
		}
		is := strings.Join([]string{got["method"], got["body"], got["type"], got["auth"], got["cookie"], got["own"]}, ",")
		url := c.to
		if strings.HasPrefix(url, "/") {
			url = s.URL + url
		}
		if is != c.want || got["referer"] != "" || !res.Redirected || res.URL != url {
			t.Errorf("%+v: %s %+v", c, is, res)
		}
	}
	for _, path := range []string{"/x", "/to/302", "/to/304?/x", "/to/300?/x"} { // those that are no redirects
		res, _, err := Do(context.Background(), p, Request{URL: s.URL + path}, nil)
		if err != nil || res.Redirected || res.URL != "" {
			t.Errorf("%s: %+v %v", path, res, err)
		}
	}
}

// TestRedirectModes checks the limit of redirects, the modes that a guest may request, and that each redirect is
// checked.
func TestRedirectModes(t *testing.T) {
	s := redirecting(t)
	p := NewPolicy([]string{s.URL}, []string{}, nil)
	for _, c := range []struct {
		r      Request
		status int
		url    string // the final path, empty if there was no redirect
		code   abi.Code
	}{
		{Request{URL: "/down/20"}, 200, "/down/0", 0}, {Request{URL: "/down/21"}, 0, "", abi.StepFailed},
		{Request{URL: "/down/1", Redirect: "manual"}, 302, "", 0}, {Request{URL: "/down/0", Redirect: "manual"}, 200, "", 0},
		{Request{URL: "/to/302?http://[bad", Redirect: "manual"}, 302, "", 0}, {Request{URL: "/to/302?http://[bad"}, 0, "", abi.StepFailed},
		{Request{URL: "/down/1", Redirect: "error"}, 0, "", abi.StepFailed}, {Request{URL: "/down/0", Redirect: "error"}, 200, "", 0},
		{Request{URL: "/to/302", Redirect: "error"}, 0, "", abi.StepFailed}, {Request{URL: "/down/1", Redirect: "follow"}, 200, "/down/0", 0},
		{Request{URL: "/down/1", Redirect: "never"}, 0, "", abi.InvalidArgument}, {Request{URL: "/", Method: "TRACE"}, 0, "", abi.InvalidArgument},
		{Request{URL: "/", Method: "connect"}, 0, "", abi.InvalidArgument}, {Request{URL: "/", Method: "Track"}, 0, "", abi.InvalidArgument},
		{Request{URL: "/to/302?http://elsewhere.example/"}, 0, "", abi.Denied}, {Request{URL: "/to/307?file:///etc/passwd"}, 0, "", abi.Denied},
		{Request{URL: "/to/302?http://elsewhere.example/", Redirect: "manual"}, 302, "", 0},
	} {
		r := c.r
		r.URL = s.URL + r.URL
		res, _, err := Do(context.Background(), p, r, nil)
		url := strings.TrimPrefix(res.URL, s.URL)
		if (err != nil || c.code != 0) && code(err) != c.code || res.Status != c.status || url != c.url || res.Redirected != (c.url != "") {
			t.Errorf("%+v: %+v %v", c, res, err)
		}
	}
}
