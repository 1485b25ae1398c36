package examples_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/typescript"
)

// newScript is a host with a workflow of examples/typescript.
func newScript(t *testing.T, name string, opts ...hosttest.Option) *example {
	t.Helper()
	wasm, _, err := typescript.Build(t.Context(), "typescript/"+name+".ts")
	if err != nil {
		t.Fatal(err)
	}
	e := &example{hosttest.New(t, opts...), t, name}
	if _, err := e.UploadAll(context.Background(), name, wasm); err != nil {
		t.Fatal(err)
	}
	return e
}

// outputs returns what a run has emitted.
func (e *example) outputs(id string) (all []string) {
	e.t.Helper()
	for o, err := range e.Output(context.Background(), id, "", 0) {
		if err != nil {
			e.t.Fatal(err)
		}
		all = append(all, string(o.Data))
	}
	return all
}

// TestTypeScriptSleeps runs the examples that only sleep, with a crash of the host in the middle of each.
func TestTypeScriptSleeps(t *testing.T) {
	for name, c := range map[string]struct {
		input any
		want  string
		took  time.Duration
	}{
		"nap": {"Ada", `"good morning, Ada"`, 5 * time.Second},
		"until": {map[string]string{"title": "News", "at": "2026-01-07T10:30:00+01:00"},
			`"News is out at 2026-01-07T09:30:00.000Z"`, 48*time.Hour + 90*time.Minute},
		"poll":    {5, `["1s","2s","4s","8s"]`, 15 * time.Second},
		"drip":    {map[string]string{}, "4", 6 * day},
		"trial":   {"Ada", `"Ada did not subscribe"`, 14 * day},
		"confirm": {"ada@example.com", `"nobody came"`, 2 * day},
	} {
		t.Run(name, func(t *testing.T) {
			e := newScript(t, name)
			from := e.Clock.Now()
			e.begin("r", c.input)
			e.Advance(c.took / 2)
			e.Crash()
			if got := e.ends("r"); got != c.want {
				t.Errorf("result %s, not %s", got, c.want)
			}
			if took := e.Clock.Now().Sub(from); took != c.took {
				t.Errorf("it took %v, not %v", took, c.took)
			}
		})
	}
}

func TestTypeScriptTrial(t *testing.T) {
	e := newScript(t, "trial")
	e.begin("won", "Ada")
	e.begin("lost", "Bob")
	e.Advance(8 * day)
	e.signal("won", "subscribed", "large")
	e.Crash()
	e.signal("lost", "left", nil)
	for id, want := range map[string]string{"won": `"Ada took the large plan"`, "lost": `"Bob left"`} {
		if got := e.ends(id); got != want {
			t.Errorf("%s: %s, not %s", id, got, want)
		}
		r, err := e.Get(context.Background(), id)
		if err != nil || r.Attributes["trial"] != id {
			t.Errorf("attributes %v, %v", r.Attributes, err)
		}
	}
}

// TestTypeScriptConfirm delivers to a hook of a run that waits for that and for a timer, which is withdrawn.
func TestTypeScriptConfirm(t *testing.T) {
	e := newScript(t, "confirm")
	e.begin("r", "ada@example.com")
	e.Crash()
	e.signal("r", "confirmed", map[string]string{"name": "Ada"})
	from := e.Clock.Now()
	if got := e.ends("r"); got != `"welcome, Ada"` || e.Clock.Now() != from {
		t.Errorf("%s at %v", got, e.Clock.Now())
	}
}

func TestTypeScriptApproval(t *testing.T) {
	e := newScript(t, "approval")
	if _, err := e.Start(context.Background(), "approval", map[string]any{"number": ""}); !errors.Is(err, host.ErrInvalid) {
		t.Errorf("an invoice without a number: %v", err)
	}
	for id, decision := range map[string]any{"yes": map[string]any{"approved": true, "by": "Eve"},
		"no": map[string]any{"approved": false, "by": "Eve"}, "late": nil} {
		e.begin(id, map[string]any{"number": "7", "approver": "eve@example.com", "cents": 100})
		if decision != nil {
			e.signal(id, "decision", decision)
		}
	}
	e.Crash()
	for id, want := range map[string]string{"yes": `"approved by Eve"`, "no": "refused by Eve", "late": "nobody decided within seven days"} {
		if got := e.ends(id); !strings.Contains(got, want) {
			t.Errorf("%s: %s, not %s", id, got, want)
		}
	}
}

// TestTypeScriptCooldown has more jobs than an iteration takes.
func TestTypeScriptCooldown(t *testing.T) {
	e := newScript(t, "cooldown")
	e.begin("r", nil)
	var want []string
	for n := range 23 {
		e.signal("r", "job", fmt.Sprint(n))
		want = append(want, fmt.Sprintf("%q", fmt.Sprint(n)))
		if n == 11 {
			e.Crash()
		}
	}
	if got := e.ends("r"); got != "23" {
		t.Errorf("handled %s", got)
	}
	if got := e.outputs("r"); !slices.Equal(got, want) {
		t.Errorf("handled %v", got)
	}
	r, err := e.Get(context.Background(), "r")
	if err != nil || r.Iteration != 2 {
		t.Errorf("iteration %d, %v", r.Iteration, err)
	}
}

func TestTypeScriptOrders(t *testing.T) {
	ctx := context.Background()
	wasm, _, err := typescript.Build(ctx, "typescript/orders.ts")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		trouble map[string][]int
		want    string
		refunds int
		after   string
	}{
		"well":     {nil, `{"charge":"charges-1","parcel":"parcels-2"}`, 0, ""},
		"trouble":  {map[string][]int{"/charges": {500, 429}, "/parcels": {503}}, `{"charge":"charges-1","parcel":"parcels-2"}`, 0, ""},
		"no stock": {map[string][]int{"/parcels": {404}}, "404 trouble", 1, ""},
		"ages":     {map[string][]int{"/charges": {503, 429}}, `{"charge":"charges-1"`, 0, "999999999999"},
		"date":     {map[string][]int{"/charges": {503, 429}}, `{"charge":"charges-1"`, 0, "Wed, 21 Oct 2099 07:28:00 GMT"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shop{effects: map[string]string{}, trouble: c.trouble, after: c.after,
				lose: map[string]bool{"/charges": c.trouble == nil}}
			service := httptest.NewServer(s)
			t.Cleanup(service.Close)
			e := &example{hosttest.New(t, hosttest.WithConfig(func(cfg *host.Config) {
				cfg.Secrets = func(name string) (string, bool) { return "s3cr3t", name == "SHOP" }
			})), t, "orders"}
			if _, err := e.Upload(ctx, "orders", wasm, host.AllowHTTP(service.URL),
				host.AllowSecret("SHOP", service.URL, "Authorization")); err != nil {
				t.Fatal(err)
			}
			e.begin("r", map[string]any{"service": service.URL, "item": "book", "cents": 1200})
			if got := e.ends("r"); !strings.Contains(got, c.want) {
				t.Errorf("%s, not %s", got, c.want)
			}
			if s.done("/charges") != 1 || s.done("/refunds") != c.refunds {
				t.Errorf("%d charges, %d refunds", s.done("/charges"), s.done("/refunds"))
			}
			if c.after != "" {
				backedOff(t, e.Host, "r")
			}
		})
	}
}

// TestTypeScriptStack looks for the place in the source in the error of a run.
func TestTypeScriptStack(t *testing.T) {
	e := newScript(t, "approval")
	e.begin("r", map[string]any{"number": "7", "approver": "eve@example.com", "cents": 100})
	e.signal("r", "decision", map[string]any{"approved": false, "by": "Eve"})
	e.Finish("r")
	_, err := e.ResultRaw(context.Background(), "r")
	run, ok := errors.AsType[*host.RunError](err)
	if !ok {
		t.Fatal(err)
	}
	var failure struct{ Stack string }
	if err := json.Unmarshal(run.JSON, &failure); err != nil || failure.Stack != "    at <anonymous> (approval.ts:26:22)" {
		t.Errorf("%v, stack %q", err, failure.Stack)
	}
}
