package host

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// Scope is a kind of call that a token allows. A server maps each of its endpoints to one scope.
type Scope string

// The scopes.
const (
	ScopeRead    Scope = "read"    // look at workflows, runs, journals, results, output; queries
	ScopeWork    Scope = "work"    // take attempts of handlers for workers, and hand in their outcomes
	ScopeRun     Scope = "run"     // start runs and send signals
	ScopeOperate Scope = "operate" // cancel, terminate, pause, wake, retry, restart, migrate and delete runs; sweep
	ScopeUpload  Scope = "upload"  // upload and delete versions; with ScopeRead, check runs against a module
	ScopeAdmin   Scope = "admin"   // tokens, retentions, backups, releasing a copy; includes the other scopes
)

// Scopes are all scopes, starting with the least powerful.
var Scopes = []Scope{ScopeRead, ScopeWork, ScopeRun, ScopeOperate, ScopeUpload, ScopeAdmin}

// ErrUnauthorized is the error of a token that is unknown, revoked or expired.
var ErrUnauthorized = errors.New("token is not accepted")

// Limits of tokens.
const (
	// MaxTokens is how many tokens a store holds. They are always listed as a whole; a program with more callers
	// needs another way to authenticate them.
	MaxTokens = 10_000
	// MaxTokensOfOne is how many tokens a namespace may have, so that the callers of one namespace, who can create
	// tokens with the scope admin, cannot use up MaxTokens.
	MaxTokensOfOne = 1_000
	// MaxTokenNameBytes bounds the name of a token, which has one line in a list.
	MaxTokenNameBytes = 128
	// tokenBytes is how many random bytes a token has: 256 bits cannot be guessed, so a plain hash is enough.
	tokenBytes = 32
	// tokenIDBytes is how many bytes of a token's hash are its id: among MaxTokens tokens, collisions are rare.
	tokenIDBytes = 6
)

// TokenPrefix begins the text of each token, so that secret scanners find it.
const TokenPrefix = "wfh_"

// TokenSpec is what a new token allows. Scopes must not be empty.
type TokenSpec struct {
	Name      string        // for people, at most MaxTokenNameBytes; may be empty
	Namespace string        // the only namespace of the token, which need not exist; empty for all
	Scopes    []Scope       // the allowed scopes
	TTL       time.Duration // time to live; 0 for no expiry
}

// Token describes a token. The text of a token is not stored.
type Token struct {
	ID        string    `json:"id"` // identifies the token in lists and in Tokens.Revoke; not secret
	Name      string    `json:"name,omitempty"`
	Namespace string    `json:"namespace,omitempty"` // empty: all of them
	Scopes    []Scope   `json:"scopes"`
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires,omitzero"` // zero: never
}

// Allows reports whether the token allows calls of a scope in a namespace. The empty namespace is the default one.
func (t *Token) Allows(s Scope, namespace string) bool {
	if namespace == "" {
		namespace = store.DefaultNamespace
	}
	return (t.Namespace == "" || t.Namespace == namespace) &&
		(slices.Contains(t.Scopes, s) || slices.Contains(t.Scopes, ScopeAdmin))
}

// NewText returns the text for a new token with 256 bits from Config.Random. It stores nothing.
func (s Tokens) NewText() string {
	var b [tokenBytes]byte
	s.h.cfg.Random(b[:])
	return TokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// Create creates a token and returns its text. The text is not stored, only its SHA-256. The token is durable on
// return. ErrInvalid for invalid scopes, names and times, ErrLimit if there are MaxTokens, or MaxTokensOfOne of the
// namespace.
func (s Tokens) Create(ctx context.Context, spec TokenSpec) (text string, t Token, err error) {
	st, err := s.h.tokenOf(spec)
	if err != nil {
		return "", Token{}, err
	}
	n, own := 0, 0
	for x, err := range s.h.store.Tokens().All(ctx) {
		if err != nil {
			return "", Token{}, translate(err)
		}
		n++
		if spec.Namespace != "" && tokenInfo(&x).Namespace == spec.Namespace {
			own++
		}
	}
	if n >= MaxTokens {
		return "", Token{}, fmt.Errorf("%w: there are %d tokens, the limit is %d: revoke some", ErrLimit, n, MaxTokens)
	}
	if own >= MaxTokensOfOne {
		return "", Token{}, fmt.Errorf("%w: the namespace %q has %d tokens, the limit is %d: revoke some", ErrLimit, spec.Namespace,
			own, MaxTokensOfOne)
	}
	text = s.NewText()
	st.Hash = sha256.Sum256([]byte(text))
	if err := s.h.store.Tokens().Add(ctx, st); err != nil {
		return "", Token{}, translate(err)
	}
	return text, tokenInfo(&st), nil
}

// tokenOf checks a specification and returns the record of a token without its hash.
func (h *Host) tokenOf(spec TokenSpec) (store.Token, error) {
	switch {
	case len(spec.Name) > MaxTokenNameBytes:
		return store.Token{}, fmt.Errorf("%w: the name of a token has at most %d bytes, got %d", ErrInvalid, MaxTokenNameBytes,
			len(spec.Name))
	case strings.ContainsFunc(spec.Name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return store.Token{}, fmt.Errorf("%w: the name of a token has no control characters, got %q", ErrInvalid, spec.Name)
	case len(spec.Scopes) == 0:
		return store.Token{}, fmt.Errorf("%w: a token needs at least one scope of %s", ErrInvalid, scopeNames())
	case spec.TTL < 0:
		return store.Token{}, fmt.Errorf("%w: a token lasts for a positive time, got %v", ErrInvalid, spec.TTL)
	}
	if spec.Namespace != "" {
		if err := abi.CheckNamespace(spec.Namespace); err != nil {
			return store.Token{}, translate(err)
		}
	}
	now := h.cfg.Clock.Now()
	t := store.Token{Name: spec.Name, Namespace: spec.Namespace, CreatedUnixMs: now.UnixMilli()}
	if spec.TTL > 0 {
		t.ExpiresUnixMs = now.Add(spec.TTL).UnixMilli()
	}
	for _, s := range spec.Scopes {
		if !slices.Contains(Scopes, s) {
			return store.Token{}, fmt.Errorf("%w: a scope is one of %s, got %q", ErrInvalid, scopeNames(), s)
		}
		t.Scopes = append(t.Scopes, string(s))
	}
	slices.Sort(t.Scopes)
	t.Scopes = slices.Compact(t.Scopes)
	return t, nil
}

func scopeNames() string {
	var names []string
	for _, s := range Scopes {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// List lists the tokens that were created and not revoked, including expired ones, by creation time.
func (s Tokens) List(ctx context.Context) ([]Token, error) {
	list := []Token{}
	for t, err := range s.h.store.Tokens().All(ctx) {
		if err != nil {
			return nil, translate(err)
		}
		list = append(list, tokenInfo(&t))
	}
	slices.SortStableFunc(list, func(a, b Token) int { return a.Created.Compare(b.Created) })
	return list, nil
}

// Revoke deletes the token with an id. On return, Authenticate no longer accepts the token. ErrNotFound if the
// token does not exist.
func (s Tokens) Revoke(ctx context.Context, id string) error {
	for t, err := range s.h.store.Tokens().All(ctx) {
		if err != nil {
			return translate(err)
		}
		if tokenID(t.Hash) == id {
			return translate(s.h.store.Tokens().Delete(ctx, t.Hash))
		}
	}
	return fmt.Errorf("token %q: %w", id, ErrNotFound)
}

// Authenticate returns the token with a text. ErrUnauthorized if it does not exist or has expired.
func (s Tokens) Authenticate(ctx context.Context, text string) (Token, error) {
	hash := store.Digest(sha256.Sum256([]byte(text)))
	t, err := s.h.store.Tokens().Token(ctx, hash)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Token{}, fmt.Errorf("%w: nobody has this token, or it was revoked", ErrUnauthorized)
	case err != nil:
		return Token{}, translate(err)
	case subtle.ConstantTimeCompare(t.Hash[:], hash[:]) != 1: // the record is stored under a wrong key
		return Token{}, fmt.Errorf("%w: the token's record is of another token", ErrUnauthorized)
	case t.ExpiresUnixMs != 0 && s.h.cfg.Clock.Now().UnixMilli() >= t.ExpiresUnixMs:
		return Token{}, fmt.Errorf("%w: the token %s has expired at %s", ErrUnauthorized, tokenID(hash),
			abi.TimeOf(t.ExpiresUnixMs).UTC().Format(time.RFC3339))
	}
	return tokenInfo(&t), nil
}

func tokenID(hash store.Digest) string { return hex.EncodeToString(hash[:tokenIDBytes]) }

func tokenInfo(t *store.Token) Token {
	out := Token{ID: tokenID(t.Hash), Name: t.Name, Namespace: t.Namespace, Created: abi.TimeOf(t.CreatedUnixMs)}
	for _, s := range t.Scopes {
		out.Scopes = append(out.Scopes, Scope(s))
	}
	if t.ExpiresUnixMs != 0 {
		out.Expires = abi.TimeOf(t.ExpiresUnixMs)
	}
	return out
}
