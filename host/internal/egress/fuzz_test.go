package egress

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// FuzzPattern matches any URL against any pattern: an allowed URL has the pattern's scheme and host, or a subdomain
// of it, and has no credentials; and no frame panics.
func FuzzPattern(f *testing.F) {
	f.Add("api.example.com", "https://api.example.com/x", []byte{2, 0, 0, 0, '{', '}'})
	f.Add("*.example.com", "https://a.example.com.evil.org/", []byte{})
	f.Add("http://127.0.0.1:8080", "http://127.0.0.1:8080@evil.org/", []byte{255, 255, 255, 255})
	f.Add("http://[::1]", "http://[::1%25eth0]/", []byte("\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, pattern, text string, frame []byte) {
		var r Request
		_, _ = Unframe(frame, &r)
		if p, err := ParsePattern(pattern); err == nil && (p.Host == "" || p.Port == "" || strings.Contains(p.Host, "*")) {
			t.Fatalf("pattern %q is %+v", pattern, p)
		}
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		policy := NewPolicy([]string{pattern}, nil, nil)
		if !policy.allowed(u) {
			return
		}
		p := policy.Hosts[0]
		host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
		if u.User != nil || u.Scheme != p.Scheme || host != p.Host && (!p.below || !strings.HasSuffix(host, "."+p.Host)) {
			t.Fatalf("%q allows %q", pattern, text)
		}
	})
}

// FuzzRedact finds any secret in any text, and redacts nothing else.
func FuzzRedact(f *testing.F) {
	f.Add("s3cr3t", "before ", " after", uint8(0))
	f.Add(awkward, `\\u00`, "%", uint8(7))
	f.Add("\xff", "&amp;", "#x22;", uint8(3))
	names := slices.Sorted(maps.Keys(forms))
	f.Fuzz(func(t *testing.T, secret, before, after string, form uint8) {
		if secret == "" || len(secret) > 1000 || len(before)+len(after) > 10_000 {
			return
		}
		var r redactor
		r.add(secret, "")
		name := names[int(form)%len(names)]
		_ = r.redact(before + forms[name](secret) + after)
		if got := r.redact(before + secret + after); strings.Contains(got, secret) && !strings.Contains(before+after, secret) &&
			!strings.Contains(before+after, secret[:1]) {
			t.Fatalf("%q is in %q", secret, got)
		}
	})
}
