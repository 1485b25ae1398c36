package host_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

// listing is a module that lists the given workflows, each of which completes with a text.
func listing(text string, names ...string) []byte {
	var d abi.Description
	for _, n := range names {
		d.Workflows = append(d.Workflows, abi.WorkflowDescription{Name: n})
	}
	b, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	m := wasmgen.New(0)
	m.Pages = 2 + len(b)/65536
	m.Text(string(b)).Call(abi.FnComplete).Drop().Export(abi.ExportDescribe)
	return m.Text(fmt.Sprintf("%q", text)).Call(abi.FnComplete).Drop().I32(0).Export(abi.ExportRun).Bytes()
}

// versionsOf formats the versions of all workflows, with the handlers that they may call.
func versionsOf(t *testing.T, h *hosttest.Host) string {
	t.Helper()
	var all []string
	for v, err := range h.Workflows().Versions(ctx, "") {
		do(t, err)
		all = append(all, fmt.Sprintf("%s@%d%v", v.Workflow, v.Number, slices.Concat(v.Steps, v.HTTP, v.Secrets)))
	}
	return strings.Join(all, " ")
}

// everything are grants of each kind.
func everything() []host.UploadOption {
	return []host.UploadOption{host.AllowStep("charge"), host.AllowHTTP("pay.example"), host.AllowSecret("PAY", "pay.example", "X")}
}

const granted = "[charge pay.example PAY=pay.example,X]"

// TestUploadTakesNothingOver uploads modules that list another owner's workflow: that workflow stays unchanged.
func TestUploadTakesNothingOver(t *testing.T) {
	h := hosttest.New(t)
	_, err := h.Upload(ctx, "", listing("good", "orders"), everything()...)
	do(t, err)
	evil := listing("evil", "evil", "orders")
	refused := func(name string, wasm []byte, opts ...host.UploadOption) {
		t.Helper()
		v, err := h.Upload(ctx, name, wasm, opts...)
		if !errors.Is(err, host.ErrConflict) {
			t.Errorf("as %q: %+v %v", name, v, err)
			return
		}
		if !strings.Contains(err.Error(), "orders@1") {
			t.Errorf("as %q: %v", name, err)
		}
		if _, err := h.OpenStore().Modules().Info(ctx, sha256.Sum256(wasm)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("as %q: the module was stored: %v", name, err)
		}
	}
	refused("evil", evil)
	refused("", evil)
	refused("", evil, everything()...)
	refused("", listing("evil", "orders"))                                              // the same list, but it would get the grants
	refused("", listing("evil", "orders"), host.AllowStep("x"), host.AllowHTTP("y.ex")) // secrets would
	if got, want := versionsOf(t, h), "orders@1"+granted; got != want {
		t.Fatalf("there are %s, want %s", got, want)
	}
	// The workflow "evil" alone is uploaded, without grants.
	_, err = h.Upload(ctx, "evil", evil, host.OnlyWorkflows("evil"))
	do(t, err)
	if got, want := versionsOf(t, h), "evil@1[] orders@1"+granted; got != want {
		t.Fatalf("there are %s, want %s", got, want)
	}
	refused("evil", listing("worse", "evil", "orders"))
	refused("", listing("worse", "evil", "orders"))
	v, err := h.Upload(ctx, "", evil, host.OnlyWorkflows("evil"))
	if err != nil || v.New {
		t.Errorf("the same again: %+v %v", v, err)
	}
	if _, err := h.Upload(ctx, "evil", evil); !errors.Is(err, host.ErrConflict) {
		t.Errorf("the same again, with all that it lists: %v", err)
	}
	_, err = h.Start(ctx, "orders", nil, host.WithRunID("r"))
	do(t, err)
	h.Finish("r")
	if got, err := host.Result[string](ctx, h.Host, "r"); err != nil || got != "good" {
		t.Errorf("%q %v", got, err)
	}
}

// TestUploadOfTheSameOwner has the owner of a module change it, add a workflow, and give one away.
func TestUploadOfTheSameOwner(t *testing.T) {
	h := hosttest.New(t)
	want := func(want string) {
		t.Helper()
		if got := versionsOf(t, h); got != want {
			t.Errorf("there are %s, want %s", got, want)
		}
	}
	up := func(name string, wasm []byte, opts ...host.UploadOption) {
		t.Helper()
		_, err := h.Upload(ctx, name, wasm, opts...)
		do(t, err)
	}
	up("", listing("1", "a"), host.AllowStep("x"))
	up("", listing("1", "a"))
	want("a@1[x]")
	up("a", listing("2", "a", "b"))
	want("a@1[x] a@2[x] b@1[]")
	up("", listing("2", "a", "b"), host.AllowStep("y"))
	want("a@1[x] a@2[x] a@3[y] b@1[] b@2[y]")
	up("b", listing("3", "b", "a")) // names one workflow; the other one came with it before
	want("a@1[x] a@2[x] a@3[y] a@4[y] b@1[] b@2[y] b@3[y]")
	up("", listing("4", "a", "b"), everything()...)
	up("", listing("5", "b", "a"), host.AllowStep(), host.AllowHTTP(), host.AllowSecretText("Q=q.ex,X"))
	if v, err := h.Workflows().Version(ctx, "b", 0); err != nil || len(v.Steps)+len(v.HTTP) > 0 || v.Secrets[0] != "Q=q.ex,X" {
		t.Error(v, err)
	}
	for v := uint32(1); v <= 6; v++ { // what was deleted passes nothing on
		do(t, h.Workflows().DeleteVersion(ctx, "a", v))
	}
	up("", listing("6", "a"))
	if v, err := h.Workflows().Version(ctx, "a", 0); err != nil || v.Number != 7 || len(v.Secrets) > 0 {
		t.Errorf("%+v %v", v, err)
	}
	if _, err := h.Upload(ctx, "b", listing("7", "a", "b")); !errors.Is(err, host.ErrConflict) { // they came apart
		t.Error(err)
	}
	up("", listing("7", "a", "b"), host.OnlyWorkflows("a", "b"))
	up("plain", versioned("1"), host.AllowStep("x"))
	up("", versioned("2"), host.OnlyWorkflows("plain"))
	if v, err := h.Workflows().Version(ctx, "plain", 0); err != nil || v.Number != 2 || len(v.Steps) != 1 {
		t.Errorf("%+v %v", v, err)
	}
	up("", listing("3", "plain"), host.AllowStep("x"))
}

// TestUploadLists refuses invalid lists of workflows.
func TestUploadLists(t *testing.T) {
	h := hosttest.New(t)
	many := make([]string, abi.MaxWorkflows+1)
	for i := range many {
		many[i] = fmt.Sprintf("w%d", i)
	}
	for name, c := range map[string]struct {
		wasm []byte
		name string
		only []string
		is   error
		says string
	}{
		"too many":      {listing("x", many...), "", nil, host.ErrRejected, "it lists 257 workflows, the limit is 256"},
		"twice":         {listing("x", "a", "b", "a"), "", nil, host.ErrRejected, `it lists the workflow "a" more than once`},
		"a bad name":    {listing("x", "a b"), "", nil, host.ErrRejected, "workflow name"},
		"not there":     {listing("x", "a"), "", []string{"a", "c"}, host.ErrInvalid, `the module has no workflow "c", it has ["a"]`},
		"another":       {listing("x", "a", "b"), "b", []string{"a"}, host.ErrInvalid, `only versions of ["a"] were asked for`},
		"two of one":    {versioned("x"), "", []string{"a", "b"}, host.ErrInvalid, "the module lists no workflows"},
		"no name":       {versioned("x"), "", nil, host.ErrInvalid, "workflow name must have 1 to 128 bytes, got 0"},
		"a bad one":     {versioned("x"), "a b", nil, host.ErrInvalid, "workflow name may hold"},
		"one of a list": {listing("x", "a"), "b", nil, host.ErrInvalid, `the module has no workflow "b", it has ["a"]`},
	} {
		_, err := h.Upload(ctx, c.name, c.wasm, host.OnlyWorkflows(c.only...))
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := h.Upload(ctx, "", listing("x", many[1:]...)); err != nil {
		t.Error(err)
	}
}

// racingStore has another caller upload "orders" while a module is stored.
type racingStore struct {
	store.Store
	grants *store.Grants
}

func (s racingStore) Modules() store.ModuleStore { return racingModules{s.Store.Modules(), s.grants} }

type racingModules struct {
	store.ModuleStore
	grants *store.Grants
}

func (m racingModules) Put(ctx context.Context, wasm []byte, info store.ModuleInfo) (store.Digest, error) {
	d, err := m.ModuleStore.Put(ctx, wasm, info)
	if err != nil || m.grants.Steps == nil {
		return d, err
	}
	other, err := m.ModuleStore.Put(ctx, []byte("other"), store.ModuleInfo{})
	if err == nil {
		_, err = m.AddVersions(ctx, []store.VersionSpec{{Workflow: "orders", Module: other, Grants: *m.grants}})
	}
	return d, err
}

// TestUploadRaces uploads a module while another module gets one of its workflows.
func TestUploadRaces(t *testing.T) {
	grants := store.Grants{Steps: []string{"charge"}}
	h, err := host.Open(ctx, host.Config{Store: racingStore{memstore.New().Open(), &grants}})
	do(t, err)
	defer func() { _ = h.Close() }()
	if _, err := h.Upload(ctx, "evil", listing("x", "evil", "orders")); !errors.Is(err, host.ErrConflict) {
		t.Error(err)
	}
	if v, err := h.Workflows().Version(ctx, "orders", 0); err != nil || v.Number != 1 {
		t.Error(v, err)
	}
}
