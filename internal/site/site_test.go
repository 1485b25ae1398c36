package site

import (
	"net/netip"
	"testing"
)

func TestOf(t *testing.T) {
	for _, x := range [][2]string{
		{"192.0.2.1", "192.0.2.1/32"}, {"::ffff:192.0.2.1", "192.0.2.1/32"}, {"127.0.0.1", "127.0.0.1/32"}, {"::1", "::1/128"},
		{"2001:db8::1", "2001:db8::/64"}, {"2001:db8::ffff:0:0:1", "2001:db8::/64"}, {"2001:db8:0:1::1", "2001:db8:0:1::/64"},
		{"fd00::1", "fd00::/64"}, {"fe80::1", "fe80::1/128"}, {"fe80::2%eth0", "fe80::2/128"}, {"febf::2", "febf::2/128"},
	} {
		if got := Of(netip.MustParseAddr(x[0])); got.String() != x[1] {
			t.Errorf("%s is of %s, want %s", x[0], got, x[1])
		}
	}
	if got := Of(netip.Addr{}); got != (netip.Prefix{}) {
		t.Errorf("no address is of %s", got)
	}
}
