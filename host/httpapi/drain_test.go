package httpapi

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
)

// until polls until a condition holds.
func (f *fleet) until(what string, so func() bool) {
	f.t.Helper()
	for began := clock.System().Now(); !so(); pause(10 * time.Millisecond) {
		if clock.System().Now().Sub(began) > 60*time.Second {
			f.t.Fatalf("within a minute: %s", what)
		}
	}
}

// TestClusterDrain drains hosts of a cluster of three, in all orders that are refused, and undrains them.
func TestClusterDrain(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	f := newFleet(t, 3)
	ctx := t.Context()
	f.naps("1h")
	f.steps("print")
	one := f.hosts[1]
	busy := f.heldBy(one, "step-print")
	var taken List[Attempt]
	f.until("an attempt waits for a worker", func() bool {
		f.callOf(one, "GET", "/v1/handlers/print/attempts?wait=1s&max=1&lease=5m", "", &taken)
		return len(taken.Items) > 0
	})
	if taken.Items[0].Run != busy {
		t.Fatalf("%+v", taken.Items)
	}

	began := clock.System().Now()
	x, err := f.hosts[0].client.DrainHost(ctx, "host-1")
	if err != nil || x.Name != "host-1" || !x.Drained || !x.Draining {
		t.Fatalf("%+v %v", x, err)
	}
	f.until("all that rests has moved", func() bool { return len(one.h.Partitions()) == 1 })
	if took := clock.System().Now().Sub(began); took > 8*time.Second {
		t.Errorf("it took %v, as if runs that rest had been waited for", took)
	}
	if _, err := f.hosts[0].client.DrainHost(ctx, "host-1"); err != nil { // again
		t.Error(err)
	}
	for clock.System().Now().Sub(began) < 6*time.Second { // longer than other moves wait, and shorter than a drain does
		pause(100 * time.Millisecond)
	}
	if code := f.call("POST", "/v1/handlers/print/attempts/"+taken.Items[0].Lease+"/complete", `"done"`, nil); code != 204 {
		t.Fatalf("the attempt that was in flight: %d", code)
	}
	if r, err := f.any().Wait(ctx, busy); err != nil || r.Status != client.Completed {
		t.Errorf("%+v %v", r, err)
	}
	f.until("the busy partition has moved, too", func() bool { return len(one.h.Partitions()) == 0 })
	f.settle()
	for _, id := range []string{"", "named"} { // it passes starts on, also those that get their ids from the server
		if r, err := one.client.Start(ctx, "nap-1h", nil, client.StartOptions{ID: id}); err != nil {
			t.Errorf("%q: %+v %v", id, r, err)
		}
	}
	f.startsOnPage(one)
	if code := f.once(one, "GET", "/readyz", "", nil); code != http.StatusOK {
		t.Errorf("a drained host takes requests: %d", code)
	}

	if _, err := f.any().DrainHost(ctx, "host-9"); !isCode(err, "not_found") ||
		!strings.Contains(err.Error(), `no live host "host-9"; it has "host-0", "host-1", "host-2"`) {
		t.Error(err)
	}
	accepted := f.drainBoth()
	if len(accepted) != 1 {
		t.Fatalf("of the last two, %v were drained", accepted)
	}
	left := 2 - accepted[0]
	_, err = f.any().DrainHost(ctx, fmt.Sprint("host-", left))
	if !isCode(err, "conflict") || !strings.Contains(err.Error(), fmt.Sprintf(`"host-%d" is the last host of the cluster that takes partitions`, left)) {
		t.Error(err)
	}
	f.until("the last one has all", func() bool { return len(f.hosts[left].h.Partitions()) == host.NumPartitions })
	for _, name := range []string{"host-1", fmt.Sprint("host-", accepted[0])} {
		x, err := f.any().UndrainHost(ctx, name)
		if err != nil || x.Drained {
			t.Errorf("%+v %v", x, err)
		}
	}
	f.until("each has some", func() bool { return !slices.Contains(f.settle(), 0) })
	list, err := f.any().Hosts(ctx)
	f.ok(err)
	for _, x := range list {
		if age := clock.System().Now().Sub(x.LastBeat); x.Drained || x.Draining || age < 0 || age > 2*clusterLease {
			t.Errorf("%+v", x)
		}
	}
}

// startsOnPage starts a run at the page of a host, without an id.
func (f *fleet) startsOnPage(x *node) {
	f.t.Helper()
	text, _, err := f.hosts[0].h.Tokens().Create(f.t.Context(), host.TokenSpec{Scopes: []host.Scope{host.ScopeRead, host.ScopeRun}})
	f.ok(err)
	jar, err := cookiejar.New(nil)
	f.ok(err)
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	send := func(method, path string, form url.Values) (*http.Response, string) {
		r, err := http.NewRequestWithContext(f.t.Context(), method, x.url+path, strings.NewReader(form.Encode()))
		f.ok(err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", x.url)
		a, err := browser.Do(r)
		f.ok(err)
		defer func() { _ = a.Body.Close() }()
		b, err := io.ReadAll(a.Body)
		f.ok(err)
		return a, string(b)
	}
	send("POST", "/login", url.Values{"token": {text}})
	_, page := send("GET", "/workflows/nap-1h/start", nil)
	m := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(page)
	if m == nil {
		f.t.Fatal(page)
	}
	if a, page := send("POST", "/workflows/nap-1h/start", url.Values{"csrf": {m[1]}}); a.StatusCode != http.StatusSeeOther ||
		!strings.HasPrefix(a.Header.Get("Location"), "/runs/") {
		f.t.Errorf("%d %s", a.StatusCode, page)
	}
}

// heldBy starts a run of a workflow whose partition belongs to a host, and returns its id.
func (f *fleet) heldBy(x *node, workflow string) string {
	f.t.Helper()
	for i := 0; ; i++ {
		id := fmt.Sprint(workflow, "-", i)
		if _, other, err := x.h.Owner(f.t.Context(), id); err != nil || other {
			continue
		}
		_, err := x.client.Start(f.t.Context(), workflow, nil, client.StartOptions{ID: id})
		f.ok(err)
		return id
	}
}

// drainBoth drains the hosts 0 and 2 at the same time, and returns which are.
func (f *fleet) drainBoth() (accepted []int) {
	f.t.Helper()
	for range 20 { // until one of them is accepted: each may refuse because of the other
		var both sync.WaitGroup
		var errs [3]error
		for _, i := range []int{0, 2} {
			both.Go(func() { errs[i] = f.hosts[i].h.Drain(f.t.Context()) })
		}
		both.Wait()
		for _, i := range []int{0, 2} {
			if errs[i] == nil {
				accepted = append(accepted, i)
			}
		}
		if len(accepted) > 0 {
			return accepted
		}
	}
	return nil
}

// TestDrainNeedsScope drains with tokens that may not, and a server that is alone.
func TestDrainNeedsScope(t *testing.T) {
	f := newFleet(t, 1)
	for _, c := range []struct {
		spec host.TokenSpec
		code string
	}{{host.TokenSpec{Scopes: []host.Scope{host.ScopeRead, host.ScopeRun, host.ScopeUpload}}, "scope"},
		{host.TokenSpec{Scopes: []host.Scope{host.ScopeOperate}, Namespace: "default"}, "scope"},
		{host.TokenSpec{Scopes: []host.Scope{host.ScopeOperate}}, "conflict"}} {
		text, _, err := f.hosts[0].h.Tokens().Create(t.Context(), c.spec)
		f.ok(err)
		limited, err := client.New(f.hosts[0].url, client.WithToken(text))
		f.ok(err)
		if _, err := limited.DrainHost(t.Context(), "host-0"); !isCode(err, c.code) {
			t.Errorf("%v: %v", c.spec.Scopes, err)
		}
	}
}
