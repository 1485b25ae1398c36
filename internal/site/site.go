// Package site says which addresses are one caller.
package site

import "net/netip"

// bits is how much of an address of IPv6 counts: a network has this part, and each machine in it takes as many addresses behind
// it as it likes. Many sites have 256 such networks, or 65,536, and so as many callers. A shorter part would count the customers
// of a hoster as one, who have one network each.
const bits = 64

// Of returns the part of an address that counts for limits. It is the whole one of IPv4, also where it is mapped into IPv6. So it
// is of loopback and of link-local addresses, whose first half is the same for all.
func Of(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	n := ip.BitLen()
	if ip.Is6() && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
		n = bits
	}
	at, _ := ip.Prefix(n) // an address has as many bits; the zero Addr has none, and the zero Prefix
	return at
}
