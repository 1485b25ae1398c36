package egress

import (
	"net/netip"
	"testing"
)

// special lists IANA's special-purpose addresses (iana-ipv4-special-registry, iana-ipv6-special-registry), deprecated
// blocks that are still routed in places, and IPv4 within IPv6.
var special = []string{
	// IPv4
	"0.0.0.0/8", "0.0.0.0/32", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32", "192.0.0.10/32", "192.0.0.170/32", "192.0.0.171/32", "192.0.2.0/24",
	"192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.88.99.2/32", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "255.255.255.255/32", "224.0.0.0/4",
	// IPv6
	"::1/128", "::/128", "::ffff:10.0.0.0/104", "::ffff:127.0.0.0/104", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64",
	"2001::/23", "2001::/32", "2001:1::1/128", "2001:1::2/128", "2001:1::3/128", "2001:2::/48", "2001:3::/32", "2001:4:112::/48",
	"2001:10::/28", "2001:20::/28", "2001:30::/28", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20", "5f00::/16",
	"fc00::/7", "fe80::/10",
	// out of use, and multicast
	"fec0::/10", "3ffe::/16", "200::/7", "ff00::/8",
	// IPv4 inside: compatible, translated, NAT64, 6to4
	"::10.0.0.0/104", "::127.0.0.1/128", "::8.8.8.8/128", "::ffff:0:10.0.0.0/104", "::ffff:0:127.0.0.1/128", "::ffff:0:0:0/96",
	"64:ff9b::10.0.0.1/128", "64:ff9b::169.254.169.254/128", "2002:7f00:1::/48", "2002:a00:1::/48", "2002:a9fe:a9fe::/48",
}

// last returns the last address of a block.
func last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// TestReserved checks both ends of each block. Nothing is dialled.
func TestReserved(t *testing.T) {
	for _, text := range special {
		p := netip.MustParsePrefix(text)
		for _, a := range []netip.Addr{p.Masked().Addr(), last(p)} {
			if !private(a) {
				t.Errorf("%s of %s may be reached", a, text)
			}
			if a.Is4() && !private(netip.AddrFrom16(a.As16())) {
				t.Errorf("%s of %s may be reached as IPv6", a, text)
			}
			if a.Is6() && !private(a.WithZone("eth0")) {
				t.Errorf("%s of %s may be reached with a zone", a, text)
			}
		}
	}
	if !private(netip.Addr{}) {
		t.Error("no address may be reached")
	}
	for _, text := range []string{"1.0.0.0", "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
		"128.0.0.0", "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.31.195.255", "192.88.98.255", "192.88.100.0",
		"192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "::ffff:8.8.8.8",
		"2001:200::1", "2001:4860:4860::8888", "2003::1", "2606:4700::1111", "2620:4f:7fff::", "2620:4f:8001::", "2a00:1450:4001::",
		"3ffd::", "2001:db7::", "2001:db9::"} {
		if private(netip.MustParseAddr(text)) {
			t.Errorf("%s may not be reached", text)
		}
	}
}
