package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	"github.com/wfhost/wfhost/host"
)

// Addresses of a caller who uses another one for each request, and an address of another caller.
const ownSite, otherAddress = "2001:db8:0:1::/64", "2001:db8:0:2::1"

func addressOfSite(i int) string { return fmt.Sprintf("2001:db8:0:1::%x", i+1) }

// TestOneSite has a caller without a token change its address within an IPv6 network for each request. All limits
// treat these addresses as one caller, and do not affect the next network. The audit log has each address.
func TestOneSite(t *testing.T) {
	form := []string{"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin",
		"Origin", "http://127.0.0.1:7777"}
	wrong := url.Values{"token": {"wfh_wrong"}}.Encode()
	for name, x := range map[string]struct {
		rate                 float64
		method, target, body string
		status               int
	}{
		"requests for what is public": {rare, http.MethodGet, "/healthz", "", http.StatusOK},
		"deliveries":                  {rare, http.MethodPost, "/v1/hooks/nobodys", "{}", http.StatusNotFound},
		"requests without a token":    {0, http.MethodGet, "/v1/runs", "", http.StatusUnauthorized},
		"logins that fail":            {0, http.MethodPost, "/login", wrong, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			a := newPage(t, Access{Rate: x.rate, Proxy: true})
			a.denials = newRates(rare, 1)
			for i, want := range []int{x.status, http.StatusTooManyRequests, http.StatusTooManyRequests, x.status} {
				from := addressOfSite(i)
				if i == 3 {
					from = otherAddress
				}
				headers := []string{"X-Forwarded-For", from}
				if x.target == "/login" {
					headers = append(headers, form...)
				}
				if w := a.call("", x.method, x.target, x.body, headers...); w.Code != want {
					t.Errorf("%s gets %d %s, want %d", from, w.Code, w.Body, want)
				}
			}
			for i, r := range a.records {
				if want := []string{addressOfSite(0), otherAddress}[i]; r.Caller != want || r.Address != want {
					t.Errorf("record %d has %s and %s, want %s", i, r.Caller, r.Address, want)
				}
			}
			if n := len(a.records); x.target != "/healthz" && n != 2 {
				t.Errorf("%d requests are recorded, want 2", n)
			}
		})
	}
}

// TestRefusalsOfOneSite has requests from each address of a network refused, by the API and by the page: the log has
// as many records as for one caller.
func TestRefusalsOfOneSite(t *testing.T) {
	for target, open := range map[string]bool{"/v1/hooks/nobodys": false, "/runs/none/do/cancel": true} {
		a := newPage(t, Access{Proxy: true, Open: open})
		for i := range 2 * callerRefusalsAtOnce {
			a.call("", http.MethodPost, target, "", "X-Forwarded-For", addressOfSite(i), "Sec-Fetch-Site", "same-origin",
				"Origin", "http://127.0.0.1:7777", "Content-Type", "application/x-www-form-urlencoded")
		}
		if n := len(a.records); n < callerRefusalsAtOnce || n >= 2*callerRefusalsAtOnce {
			t.Errorf("%s: %d requests of %d are recorded, of one caller %d may be", target, n, 2*callerRefusalsAtOnce, callerRefusalsAtOnce)
		}
	}
}

// TestBodiesOfOneSite delivers large bodies from two addresses of one network: they count as one caller.
func TestBodiesOfOneSite(t *testing.T) {
	a := newAPI(t, Access{Proxy: true})
	a.upload("", "w", hooked())
	a.is(a.call(local, http.MethodPost, "/v1/workflows/w/runs", `{"id":"r"}`), http.StatusCreated, "")
	for i := range 2 {
		var seen []string
		body := io.MultiReader(bytes.NewReader(make([]byte, 2*smallBody)), looking(func() {
			a.bodies.mu.Lock()
			defer a.bodies.mu.Unlock()
			seen = slices.Collect(maps.Keys(a.bodies.by))
		}))
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "http://127.0.0.1:7777/v1/hooks/"+chosen, body)
		r.Header.Set("X-Forwarded-For", addressOfSite(i))
		w := httptest.NewRecorder()
		if a.ServeHTTP(w, r); w.Code/100 != 2 || !slices.Equal(seen, []string{ownSite}) {
			t.Errorf("%d %s, and the body counts for %q, want %s", w.Code, w.Body, seen, ownSite)
		}
	}
}

// looking is the end of a body: reading it calls a function.
type looking func()

func (l looking) Read([]byte) (int, error) {
	l()
	return 0, io.EOF
}

// TestBodyBeforeItsCaller: until its caller is known, a body counts for the network of its address.
func TestBodyBeforeItsCaller(t *testing.T) {
	var from string
	a := &api{t: t}
	a.API = New(newAPI(t, Access{}).h.Host, Access{Proxy: true, Authenticate: func(r *http.Request) (host.Token, error) {
		from = r.Body.(*timed).from
		return host.Token{}, host.ErrUnauthorized
	}})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:7777/v1/tokens", bytes.NewReader(make([]byte, 1)))
	r.Header.Set("X-Forwarded-For", addressOfSite(0))
	a.ServeHTTP(httptest.NewRecorder(), r)
	if from != ownSite {
		t.Errorf("the body counts for %q, want %s", from, ownSite)
	}
}
