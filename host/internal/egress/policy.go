// Package egress performs HTTP requests of code that the host's owner did not write. Grants say what code may reach.
// They are checked twice: the URL against the grants' patterns before the request and before each redirect, and the
// address when it is dialled, so that a name that resolves to a private address is refused.
package egress

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// A Pattern says which URLs may be requested: [scheme://]host[:port]. The default scheme is https, and the default port
// is the scheme's. The host may begin with "*." for any name below it. Private, loopback and link-local addresses are
// allowed only if the host is the address itself, or "localhost".
type Pattern struct {
	Scheme, Host, Port string
	below              bool // Host is the parent of the names that match
	private            bool // Host is an address, or localhost
}

// ParsePattern parses a pattern.
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

// ParseSecretGrant parses a secret grant.
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
	// Secret returns the value of a secret, and false if there is none.
	Secret func(name string) (string, bool)
}

// NewPolicy parses grants. It ignores malformed ones: they were checked when they were granted.
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

// allowed reports whether a pattern allows a URL. A URL with a user is never allowed.
func (p *Policy) allowed(u *url.URL) bool {
	return u.User == nil && slices.ContainsFunc(p.Hosts, func(x Pattern) bool { return x.matches(u) })
}

// reserved are the blocks of the IANA registries of special-purpose addresses for IPv4 and IPv6 (RFC 6890, as of 2025),
// and blocks that were taken out of use. They lead to the machine, to its network, through translations and tunnels to
// any of these, or nowhere. The few blocks that are globally reachable serve name servers and relays, and no API.
var reserved = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24",
	"224.0.0.0/4",       // multicast, RFC 5771
	"240.0.0.0/4",       // with the broadcast address
	"2001::/23",         // IETF protocols: Teredo, benchmarks, ORCHID and more
	"2001:db8::/32",     // documentation
	"2002::/16",         // 6to4, which embeds any IPv4 address
	"2620:4f:8000::/48", // AS112
	"3ffe::/16",         // 6bone, RFC 3701
	"3fff::/20",         // documentation
)

// unicast is the part of IPv6 that is assigned to reachable networks. Outside of it are ::1 and ::; IPv4 in ::/96,
// ::ffff:0:0/96, ::ffff:0:0:0/96, 64:ff9b::/96 and 64:ff9b:1::/48; and 100::/64, 5f00::/16, fc00::/7, fe80::/10,
// fec0::/10 and ff00::/8.
var unicast = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, t := range texts {
		list = append(list, netip.MustParsePrefix(t))
	}
	return list
}

// private reports whether an address may be reached only if a grant names it, and not by a name that resolves to it.
func private(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return !a.IsValid() || a.Is6() && !unicast.Contains(a) ||
		slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) })
}
