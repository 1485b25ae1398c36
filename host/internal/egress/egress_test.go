package egress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
)

func TestPatterns(t *testing.T) {
	for _, bad := range []string{"", "ftp://a", "a/b", "https://", "*.127.0.0.1", "a.*.b", "*", "user@host", "a?b", "*.*.a", "http://a b"} {
		if p, err := ParsePattern(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, p)
		}
	}
	for _, c := range []struct {
		pattern, url string
		want         bool
	}{
		{"api.example.com", "https://api.example.com/x", true}, {"api.example.com", "https://API.example.com./", true},
		{"api.example.com", "http://api.example.com/", false}, {"api.example.com", "https://api.example.com:444/", false},
		{"api.example.com", "https://api.example.com:443/", true}, {"api.example.com", "https://evil-api.example.com/", false},
		{"*.example.com", "https://a.b.example.com/", true}, {"*.example.com", "https://example.com/", false},
		{"*.example.com", "https://badexample.com/", false}, {"http://127.0.0.1:8080", "http://127.0.0.1:8080/", true},
		{"http://127.0.0.1:8080", "http://127.0.0.1/", false}, {"http://[::1]:80", "http://[::1]/", true},
		{"api.example.com", "https://user:pw@api.example.com/", false},
	} {
		p := NewPolicy([]string{c.pattern}, nil, nil)
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		if ok := p.allowed(u); ok != c.want {
			t.Errorf("%s for %s: %v", c.pattern, c.url, ok)
		}
	}
}

func TestPrivate(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::1",
		"fe80::1", "fd00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "224.0.0.1", "255.255.255.255", "::"} {
		if !private(netip.MustParseAddr(a)) {
			t.Errorf("%s may be reached", a)
		}
	}
	for _, a := range []string{"1.1.1.1", "93.184.216.34", "2606:4700::1111"} {
		if private(netip.MustParseAddr(a)) {
			t.Errorf("%s may not be reached", a)
		}
	}
}

// server is a service on loopback that returns what it received.
func server(t *testing.T) (s *httptest.Server, host string) {
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "http://elsewhere.example/", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/big":
			_, _ = w.Write(make([]byte, 2<<20))
		case "/echo":
			w.Header().Set("X-Auth", r.Header.Get("Authorization"))
			w.WriteHeader(http.StatusTeapot)
			_, _ = fmt.Fprintf(w, "%s %s", r.Method, r.Header.Get("Authorization"))
		}
	}))
	t.Cleanup(s.Close)
	return s, strings.TrimPrefix(s.URL, "http://")
}

func code(err error) abi.Code {
	e, ok := errors.AsType[*abi.Error](err)
	if !ok {
		return -1
	}
	return e.Code
}

func TestFetch(t *testing.T) {
	s, host := server(t)
	_, port, _ := strings.Cut(host, ":")
	secret := func(name string) (string, bool) { return "s3cr3t", name == "TOKEN" }
	p := NewPolicy([]string{s.URL}, []string{"TOKEN=" + s.URL + ",Authorization"}, secret)
	do := func(p Policy, r Request) (Response, string, error) {
		framed, err := Frame(r, []byte("body"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := Fetch(context.Background(), p, framed)
		if err != nil {
			return Response{}, "", err
		}
		var res Response
		body, err := Unframe(b, &res)
		return res, string(body), err
	}
	auth := map[string][]string{"authorization": {"Bearer {{secret:TOKEN}}"}}
	res, body, err := do(p, Request{Method: "POST", URL: s.URL + "/echo", Headers: auth})
	if err != nil || res.Status != http.StatusTeapot || body != "POST Bearer {{secret:TOKEN}}" ||
		res.Headers["X-Auth"][0] != "Bearer {{secret:TOKEN}}" {
		t.Fatal(res, body, err)
	}
	if res, _, err := do(p, Request{URL: s.URL + "/away", Headers: auth}); err != nil || res.Status != http.StatusFound {
		t.Fatal("a redirect was followed with a secret", res, err)
	}
	named := NewPolicy([]string{"http://localtest.me:" + port, "http://localhost.localdomain:" + port}, nil, nil)
	for name, c := range map[string]struct {
		p    Policy
		r    Request
		want abi.Code
	}{
		"nothing is granted":     {Policy{}, Request{URL: s.URL}, abi.Denied},
		"another port":           {p, Request{URL: "http://127.0.0.1:1/"}, abi.Denied},
		"a file":                 {p, Request{URL: "file:///etc/passwd"}, abi.Denied},
		"no URL":                 {p, Request{URL: "://"}, abi.InvalidArgument},
		"bad method":             {p, Request{URL: s.URL, Method: "A B"}, abi.InvalidArgument},
		"redirect elsewhere":     {p, Request{URL: s.URL + "/away"}, abi.Denied},
		"redirect for ever":      {p, Request{URL: s.URL + "/loop"}, abi.StepFailed},
		"too large":              {p, Request{URL: s.URL + "/big"}, abi.TooLarge},
		"secret elsewhere":       {p, Request{URL: s.URL, Headers: map[string][]string{"X-Other": {"{{secret:TOKEN}}"}}}, abi.Denied},
		"unknown secret":         {p, Request{URL: s.URL, Headers: map[string][]string{"Authorization": {"{{secret:NONE}}"}}}, abi.Denied},
		"another Host":           {p, Request{URL: s.URL, Headers: map[string][]string{"Host": {"elsewhere"}}}, abi.Denied},
		"a name of no address":   {named, Request{URL: "http://localhost.localdomain:" + port}, abi.StepFailed},
		"time is over":           {p, Request{URL: s.URL + "/echo", TimeoutMs: 1, Headers: map[string][]string{}}, 0},
		"credentials in the URL": {p, Request{URL: strings.Replace(s.URL, "//", "//u:p@", 1)}, abi.Denied},
	} {
		_, _, err := do(c.p, c.r)
		orDenied := name == "a name of no address" && code(err) == abi.Denied
		if c.want != 0 && code(err) != c.want && !orDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []struct{ url, says string }{
		{"https://example.com:8443/a?b", "requests to https://example.com:8443 are not allowed: upload or run the version with " +
			"--allow-http https://example.com:8443, or host.AllowHTTP in a program that embeds the host"},
		{"file:///etc/passwd", "requests to file:// are not allowed: only those by http and https to a host can be"},
		{"https://u:p@api.example.com/", "requests to https://api.example.com with a user in the URL are not allowed: set the header " +
			"Authorization"},
	} {
		if _, _, err := do(p, Request{URL: c.url}); err == nil || !strings.HasSuffix(err.Error(), c.says) {
			t.Errorf("%s: %v", c.url, err)
		}
	}
	for _, b := range [][]byte{nil, {1}, {255, 255, 255, 255}, {2, 0, 0, 0, '{', 'x'}} {
		if _, err := Fetch(context.Background(), p, b); code(err) != abi.InvalidArgument {
			t.Errorf("%v: %v", b, err)
		}
	}
}

// TestDialledAddress refuses a name that resolves to loopback, although its pattern is granted.
func TestDialledAddress(t *testing.T) {
	f := &fetcher{policy: &Policy{}}
	*f.policy = NewPolicy([]string{"api.example.com", "http://127.0.0.1:80"}, nil, nil)
	if err := f.checkAddress("api.example.com:443", "127.0.0.1:443"); code(err) != abi.Denied {
		t.Fatal(err)
	}
	if err := f.checkAddress("127.0.0.1:80", "127.0.0.1:80"); err != nil {
		t.Fatal(err)
	}
	if err := f.checkAddress("api.example.com:443", "93.184.216.34:443"); err != nil {
		t.Fatal(err)
	}
}

// TestLateDenial ends a request before one of its addresses is dialled: the dialling goroutine denies it while the
// request's failure is being reported. The race detector checks that this is safe.
func TestLateDenial(t *testing.T) {
	f := &fetcher{policy: &Policy{}}
	dialled := make(chan error)
	go func() { dialled <- f.checkAddress("api.example.com:443", "127.0.0.1:443") }()
	if err := f.failure(context.DeadlineExceeded); code(err) != abi.StepFailed && code(err) != abi.Denied {
		t.Error(err)
	}
	if err := <-dialled; code(err) != abi.Denied {
		t.Error(err)
	}
	if err := f.failure(context.DeadlineExceeded); code(err) != abi.Denied {
		t.Error(err)
	}
}

// TestNoProxy uses no proxy, whatever the environment of the host says.
func TestNoProxy(t *testing.T) {
	if (&fetcher{}).transport().Proxy != nil {
		t.Error("requests of guests may go through a proxy")
	}
}
