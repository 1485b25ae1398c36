// Package egress performs HTTP requests of code that the host's owner did not write. What may be reached is said by
// grants, and checked twice: the URL against the grant's patterns before the request and before each redirect, and
// the address when it is dialled, so that a name which resolves to a private address leads nowhere.
package egress

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// A Pattern says which URLs may be requested: [scheme://]host[:port]. Without a scheme it is https; without a port,
// that of the scheme. The host may begin with "*." for any name below. Private, loopback and link-local addresses can
// be reached only where the host is that address itself, or "localhost".
type Pattern struct {
	Scheme, Host, Port string
	below              bool // Host is what names end with
	private            bool // it names an address, or localhost
}

// ParsePattern reads a pattern.
func ParsePattern(text string) (p Pattern, err error) {
	bad := func(why string) (Pattern, error) {
		return Pattern{}, fmt.Errorf("host pattern %q %s: it should look like api.example.com, *.example.com or http://127.0.0.1:8080",
			text, why)
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		scheme, rest = "https", text
	}
	if scheme != "https" && scheme != "http" {
		return bad("has another scheme than http and https")
	}
	u, err := url.Parse(scheme + "://" + strings.TrimPrefix(rest, "*."))
	if err != nil || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil || u.Fragment != "" {
		return bad("is no host")
	}
	p = Pattern{Scheme: scheme, Host: strings.ToLower(u.Hostname()), Port: u.Port(), below: strings.HasPrefix(rest, "*.")}
	if strings.Contains(p.Host, "*") || p.Host == "" {
		return bad("may have a * only as its first label")
	}
	if p.Port == "" {
		p.Port = portOf(scheme)
	}
	_, notIP := netip.ParseAddr(p.Host)
	p.private = notIP == nil || p.Host == "localhost"
	if p.below && p.private {
		return bad("is an address, which has no names below")
	}
	return p, nil
}

func portOf(scheme string) string {
	if scheme == "http" {
		return "80"
	}
	return "443"
}

func (p Pattern) matches(u *url.URL) bool {
	host, port := strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), u.Port()
	if port == "" {
		port = portOf(u.Scheme)
	}
	if p.Scheme != u.Scheme || p.Port != port {
		return false
	}
	if p.below {
		return strings.HasSuffix(host, "."+p.Host)
	}
	return host == p.Host
}

// A SecretGrant allows a version to use a secret, in one header of requests to hosts of one pattern:
// NAME=pattern,Header.
type SecretGrant struct {
	Name   string
	To     Pattern
	Header string // in lower case
}

// ParseSecretGrant reads the text of a secret grant.
func ParseSecretGrant(text string) (g SecretGrant, err error) {
	name, rest, ok := strings.Cut(text, "=")
	pattern, header, ok2 := strings.Cut(rest, ",")
	if !ok || !ok2 || name == "" || header == "" {
		return g, fmt.Errorf("secret grant %q should look like NAME=api.example.com,Authorization", text)
	}
	g = SecretGrant{Name: name, Header: strings.ToLower(header)}
	g.To, err = ParsePattern(pattern)
	return g, err
}

// Policy is what one version may request.
type Policy struct {
	Hosts   []Pattern
	Secrets []SecretGrant
	// Secret gives the value of a secret, false if there is none.
	Secret func(name string) (string, bool)
}

// NewPolicy reads grants. Texts that cannot be read allow nothing: they were checked when they were granted.
func NewPolicy(hosts, secrets []string, secret func(string) (string, bool)) Policy {
	p := Policy{Secret: secret}
	for _, h := range hosts {
		if x, err := ParsePattern(h); err == nil {
			p.Hosts = append(p.Hosts, x)
		}
	}
	for _, s := range secrets {
		if x, err := ParseSecretGrant(s); err == nil {
			p.Secrets = append(p.Secrets, x)
		}
	}
	return p
}

// allowed tells whether a pattern allows a URL.
func (p *Policy) allowed(u *url.URL) bool {
	return u.User == nil && slices.ContainsFunc(p.Hosts, func(x Pattern) bool { return x.matches(u) })
}

// carrierNAT is the shared address space of RFC 6598, which netip does not call private.
var carrierNAT = netip.MustParsePrefix("100.64.0.0/10")

// reserved are blocks that lead to hosts behind a translation, or nowhere: NAT64 (RFC 6052, RFC 8215), 6to4 (RFC 3056),
// Teredo (RFC 4380), documentation and benchmarks (RFC 5737, RFC 2544, RFC 3849), reserved (RFC 1112, section 4), this
// network (RFC 791).
var reserved = []netip.Prefix{
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("192.0.0.0/24"),
}

// private tells whether an address must not be reached by a name.
func private(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return !a.IsValid() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() ||
		a.IsUnspecified() || carrierNAT.Contains(a) ||
		slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) })
}
