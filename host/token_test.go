package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestTokens creates a token, lets it expire, and revokes another one.
func TestTokens(t *testing.T) {
	ctx := context.Background()
	h := hosttest.New(t)
	text, tok, err := h.Tokens().Create(ctx, host.TokenSpec{Name: "ci", Namespace: "team-a", TTL: time.Hour,
		Scopes: []host.Scope{host.ScopeRun, host.ScopeRead, host.ScopeRun}})
	if err != nil {
		t.Fatal(err)
	}
	if len(text) != len("wfh_")+43 || !strings.HasPrefix(text, "wfh_") || strings.Contains(text, tok.ID) || len(tok.Scopes) != 2 ||
		!tok.Created.Equal(hosttest.Epoch) || !tok.Expires.Equal(hosttest.Epoch.Add(time.Hour)) {
		t.Fatalf("%q %+v", text, tok)
	}
	got, err := h.Tokens().Authenticate(ctx, text)
	if err != nil || got.ID != tok.ID || got.Name != "ci" {
		t.Fatalf("%+v %v", got, err)
	}
	for _, c := range []struct {
		scope     host.Scope
		namespace string
		want      bool
	}{{host.ScopeRead, "team-a", true}, {host.ScopeRun, "team-a", true}, {host.ScopeUpload, "team-a", false},
		{host.ScopeAdmin, "team-a", false}, {host.ScopeRead, "", false}, {host.ScopeRead, "default", false}} {
		if got.Allows(c.scope, c.namespace) != c.want {
			t.Errorf("%s in %q: %v", c.scope, c.namespace, !c.want)
		}
	}
	for _, wrong := range []string{"", text + "x", text[:len(text)-1], tok.ID, "wfh_"} {
		if _, err := h.Tokens().Authenticate(ctx, wrong); !errors.Is(err, host.ErrUnauthorized) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	h.Advance(time.Hour)
	if _, err := h.Tokens().Authenticate(ctx, text); !errors.Is(err, host.ErrUnauthorized) || !strings.Contains(err.Error(), "has expired at") {
		t.Errorf("after it has expired: %v", err)
	}
	text, admin, err := h.Tokens().Create(ctx, host.TokenSpec{Scopes: []host.Scope{host.ScopeAdmin}})
	if err != nil || !admin.Allows(host.ScopeUpload, "any") || !admin.Expires.IsZero() {
		t.Fatal(admin, err)
	}
	if list, err := h.Tokens().List(ctx); err != nil || len(list) != 2 || list[0].ID != tok.ID || list[1].ID != admin.ID {
		t.Fatal(list, err)
	}
	if err := h.Tokens().Revoke(ctx, admin.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Tokens().Authenticate(ctx, text); !errors.Is(err, host.ErrUnauthorized) {
		t.Errorf("a revoked token: %v", err)
	}
	if err := h.Tokens().Revoke(ctx, admin.ID); !errors.Is(err, host.ErrNotFound) {
		t.Errorf("revoked twice: %v", err)
	}
}

func TestTokensThatCannotBe(t *testing.T) {
	h := hosttest.New(t)
	read := []host.Scope{host.ScopeRead}
	for want, spec := range map[string]host.TokenSpec{
		"needs at least one scope of read, work, run, operate, upload, admin": {},
		`a scope is one of read, work, run, operate, upload, admin, got "x"`:  {Scopes: []host.Scope{"x"}},
		"a token lasts for a positive time, got -1ns":                         {Scopes: read, TTL: -1},
		"has at most 128 bytes, got 129":                                      {Scopes: read, Name: strings.Repeat("n", 129)},
		`has no control characters, got "a\nb"`:                               {Scopes: read, Name: "a\nb"},
		"namespace may hold the letters a-z":                                  {Scopes: read, Namespace: "A"},
	} {
		if _, _, err := h.Tokens().Create(context.Background(), spec); !errors.Is(err, host.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", spec, err, want)
		}
	}
}

// TestTokensOfOneNamespace: the tokens of one namespace have their own limit, so that other namespaces can create
// some, too.
func TestTokensOfOneNamespace(t *testing.T) {
	ctx := context.Background()
	h := hosttest.New(t)
	spec := host.TokenSpec{Namespace: "team-a", Scopes: []host.Scope{host.ScopeRead}}
	for range host.MaxTokensOfOne {
		if _, _, err := h.Tokens().Create(ctx, spec); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := h.Tokens().Create(ctx, spec); !errors.Is(err, host.ErrLimit) || !strings.Contains(err.Error(), `"team-a" has 1000`) {
		t.Errorf("%v", err)
	}
	spec.Namespace = "team-b"
	if _, _, err := h.Tokens().Create(ctx, spec); err != nil {
		t.Error(err)
	}
	spec.Namespace = ""
	if _, _, err := h.Tokens().Create(ctx, spec); err != nil {
		t.Error(err)
	}
}
