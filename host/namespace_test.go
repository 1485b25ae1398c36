package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// namespace returns a namespace of the current host under test: a restart makes a new host.
func (p *prims) namespace(name string) *host.Namespace {
	p.t.Helper()
	ns, err := p.Namespace(ctx, name)
	if err != nil {
		p.t.Fatal(err)
	}
	return ns
}

// uploadTo uploads the workflows of testdata/primitives to a namespace.
func (p *prims) uploadTo(name string) *host.Namespace {
	p.t.Helper()
	ns := p.namespace(name)
	if _, err := ns.Upload(ctx, "", hosttest.Build(p.t, "testdata/primitives"), host.AllowStep("*")); err != nil {
		p.t.Fatal(err)
	}
	return ns
}

func TestNamespaceNames(t *testing.T) {
	p := newPrims(t)
	for _, name := range []string{"A", "a b", "-a", "a-", "ä", "a/b", strings.Repeat("a", 64)} {
		if _, err := p.Namespace(ctx, name); !errors.Is(err, host.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "default"} { // what Host itself acts on
		if _, err := p.namespace(name).Workflows().Version(ctx, "child", 0); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestNamespaceUnknown uses a namespace before its first upload.
func TestNamespaceUnknown(t *testing.T) {
	p := newPrims(t)
	ns := p.namespace("team-a")
	for what, f := range map[string]func() error{
		"start":   func() error { _, err := ns.Start(ctx, "child", 1); return err },
		"get":     func() error { _, err := ns.Get(ctx, "r"); return err },
		"wait":    func() error { _, err := ns.Wait(ctx, "r"); return err },
		"signal":  func() error { return ns.Signal(ctx, "r", "go", nil) },
		"deliver": func() error { _, err := ns.Hooks().Deliver(ctx, "t", nil); return err },
		"delete":  func() error { return ns.Workflows().DeleteVersion(ctx, "child", 1) },
		"timers":  func() error { _, err := collect(ns.Timers(ctx, p.Clock.Now())); return err },
		"counts":  func() error { _, err := ns.Counts(ctx, ""); return err },
		"page":    func() error { _, err := ns.RunPage(ctx, host.Query{}); return err },
		"runs": func() (err error) {
			for _, err = range ns.Runs(ctx, host.Query{}) {
			}
			return err
		},
	} {
		if err := f(); !errors.Is(err, host.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if list, err := p.Namespaces(ctx); err != nil || len(list) != 1 {
		t.Fatalf("asking has created one: %v %v", list, err)
	}
	if _, err := ns.Upload(ctx, "x", []byte("not Wasm")); !errors.Is(err, host.ErrRejected) {
		t.Fatal(err)
	}
	if list, _ := p.Namespaces(ctx); len(list) != 1 {
		t.Fatal("an upload that was refused has created one")
	}
	p.uploadTo("team-a")
	if _, err := ns.Workflows().Version(ctx, "child", 0); err != nil { // the handle from before
		t.Fatal(err)
	}
	list, err := p.Namespaces(ctx)
	if err != nil || len(list) != 2 || list[0].Name != "default" || !list[0].Created.IsZero() ||
		list[1].Name != "team-a" || !list[1].Created.Equal(p.Clock.Now()) {
		t.Fatalf("%+v %v", list, err)
	}
}

// TestNamespaceIsolation has runs with the same id in three namespaces, each with its own input.
func TestNamespaceIsolation(t *testing.T) {
	p := newPrims(t)
	names := []string{"default", "a", "b"}
	for i, name := range names {
		ns := p.namespace(name)
		if name != "default" {
			ns = p.uploadTo(name)
		}
		r, err := ns.Start(ctx, "receive", i+1, host.WithRunID("same"))
		if err != nil || r.Existed {
			t.Fatalf("%s: %+v %v", name, r, err)
		}
		if want := strings.TrimPrefix(name, "default"); r.Namespace != want {
			t.Errorf("the run is in %q, not %q", r.Namespace, want)
		}
	}
	for i, name := range names {
		for range i + 1 {
			if err := p.namespace(name).Signal(ctx, "same", "go", name); err != nil {
				t.Fatal(err)
			}
		}
		p.Settle()
		want(t, p.endedIn(names), i+1)
	}
	for i, name := range names {
		got, err := host.Result[string](ctx, p.namespace(name), "same")
		if err != nil || strings.Count(got, name) != i+1 {
			t.Errorf("%s: %q %v", name, got, err)
		}
		if err := p.namespace(name).Replay(ctx, "same"); err != nil {
			t.Error(err)
		}
	}
	if err := p.namespace("a").Delete(ctx, "same"); err != nil {
		t.Fatal(err)
	}
	want(t, p.endedIn(names), 2)
}

// endedIn counts the ended runs with the id "same".
func (p *prims) endedIn(names []string) (n int) {
	for _, name := range names {
		for r, err := range p.namespace(name).Runs(ctx, host.Query{Workflow: "receive"}) {
			if err != nil {
				p.t.Fatal(err)
			}
			if r.ID == "same" && r.Status.Terminal() {
				n++
			}
		}
	}
	return n
}

// TestNamespaceTimers kills the host while runs of two namespaces sleep: each wakes at its own time.
func TestNamespaceTimers(t *testing.T) {
	p := newPrims(t)
	p.uploadTo("a")
	p.begin("child", 7200, host.WithRunID("nap"))
	if _, err := p.namespace("a").Start(ctx, "child", 3600, host.WithRunID("nap")); err != nil {
		t.Fatal(err)
	}
	p.Settle()
	timers, err := collect(p.namespace("a").Timers(ctx, hosttest.Epoch.Add(24*time.Hour)))
	if err != nil || len(timers) != 1 || !timers[0].Due.Equal(hosttest.Epoch.Add(time.Hour)) {
		t.Fatalf("%+v %v", timers, err)
	}
	for _, d := range []time.Duration{0, time.Hour - time.Millisecond} {
		p.Advance(d)
		p.Crash()
		for _, name := range []string{"", "a"} {
			if r, err := p.namespace(name).Get(ctx, "nap"); err != nil || r.Status != host.Sleeping {
				t.Fatalf("%q: %+v %v", name, r, err)
			}
		}
	}
	p.Advance(time.Millisecond)
	if r, _ := p.namespace("a").Get(ctx, "nap"); r.Status != host.Completed {
		t.Fatalf("%+v", r)
	}
	want(t, p.status("nap"), host.Sleeping)
	want(t, p.Finish("nap").Status, host.Completed)
}

func TestNamespaceChildren(t *testing.T) {
	p := newPrims(t)
	p.uploadTo("a")
	if _, err := p.namespace("a").Start(ctx, "parent", childPlan{Child: "child", Sleep: 60, OnEnd: "cancel", ID: "kid"},
		host.WithRunID("mother")); err != nil {
		t.Fatal(err)
	}
	p.Settle()
	p.Crash()
	p.Advance(time.Hour)
	if text, err := host.Result[string](ctx, p.namespace("a"), "mother"); err != nil || text != "kid child slept" {
		t.Fatal(text, err)
	}
	r, err := p.namespace("a").Get(ctx, "kid")
	if err != nil || r.Parent != "mother" || r.Namespace != "a" {
		t.Fatalf("%+v %v", r, err)
	}
	if _, err := p.Get(ctx, "kid"); !errors.Is(err, host.ErrNotFound) {
		t.Fatal(err)
	}
}

// TestNamespaceHooks claims one token in two namespaces, and generates tokens.
func TestNamespaceHooks(t *testing.T) {
	p := newPrims(t)
	p.uploadTo("a")
	for _, name := range []string{"", "a"} {
		if _, err := p.namespace(name).Start(ctx, "hooked", "the-token", host.WithRunID("hooked")); err != nil {
			t.Fatal(err)
		}
		if _, err := p.namespace(name).Start(ctx, "hooked", "", host.WithRunID("made")); err != nil {
			t.Fatal(err)
		}
	}
	p.Settle()
	p.Crash()
	for _, name := range []string{"a", ""} {
		ns := p.namespace(name)
		lines, err := ns.Logs(ctx, "made", 0, 1)
		if err != nil || len(lines) != 1 {
			t.Fatal(lines, err)
		}
		_, token, _ := strings.Cut(lines[0].Text, "token ")
		for id, token := range map[string]string{"hooked": "the-token", "made": token} {
			if _, err := ns.Hooks().Deliver(ctx, token, []byte(`"for `+name+`"`)); err != nil {
				t.Fatalf("%s in %q: %v", id, name, err)
			}
			p.Settle()
			if text, err := host.Result[string](ctx, ns, id); err != nil || text != "for "+name {
				t.Errorf("%s in %q: %q %v", id, name, text, err)
			}
		}
	}
}

func TestNamespaceVersions(t *testing.T) {
	p := newPrims(t)
	ns := p.uploadTo("a")
	if _, err := ns.Start(ctx, "child", 3600); err != nil {
		t.Fatal(err)
	}
	if err := ns.Workflows().DeleteVersion(ctx, "child", 1); !errors.Is(err, host.ErrConflict) {
		t.Fatal(err)
	}
	versions, err := ns.Workflows().LiveVersions(ctx, "child")
	if err != nil || len(versions) != 1 || versions[0].Live != 1 {
		t.Fatal(versions, err)
	}
	if err := p.Workflows().DeleteVersion(ctx, "child", 1); err != nil { // no run of the default namespace uses it
		t.Fatal(err)
	}
	if _, err := p.Start(ctx, "child", 1); !errors.Is(err, host.ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := ns.Start(ctx, "child", 1); err != nil { // the module is still there
		t.Fatal(err)
	}
}

// TestNamespaceSteps shows a handler the namespace of its run.
func TestNamespaceSteps(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	p := newPrims(t, hosttest.WithHandlers(func(h *host.Host) {
		h.HandleRawStep("mail", func(ctx context.Context, _ []byte) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			s := host.StepInfo(ctx)
			seen = append(seen, fmt.Sprintf("%q %s", s.Namespace, s.RunID))
			return []byte(`""`), nil
		})
	}))
	p.uploadTo("a")
	for _, name := range []string{"", "a"} {
		if _, err := p.namespace(name).Start(ctx, "approval", "the-token", host.WithRunID("r")); err != nil {
			t.Fatal(err)
		}
		p.Settle()
		p.Reopen() // the name is read from the registry
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{`"" r`, `"a" r`}; !slices.Equal(seen, want) {
		t.Fatalf("%q, want %q", seen, want)
	}
}
