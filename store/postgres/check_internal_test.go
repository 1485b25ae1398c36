package postgres

import (
	"strings"
	"testing"
)

// TestWarnings: a database without standbys cannot fail over, so nothing is said of it.
func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		synchronous          string
		standbys, used, most int
		want                 string
	}{
		{"", 0, 3, 100, ""},
		{"", 2, 3, 100, "no standby is synchronous (2 follow)"},
		{"s1", 2, 3, 100, ""},
		{"", 0, 81, 100, "81 of 100 connections"},
	} {
		got := strings.Join(judge(c.synchronous, c.standbys, c.used, c.most), "; ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
