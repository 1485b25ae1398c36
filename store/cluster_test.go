package store

import (
	"strings"
	"testing"
)

// TestCheckMember checks names of hosts.
func TestCheckMember(t *testing.T) {
	for name, legal := range map[string]bool{"": false, "a": true, "host ä": true, strings.Repeat("x", MaxMemberName): true,
		strings.Repeat("x", MaxMemberName+1): false, "a\x00": false, "\xff": false} {
		if err := CheckMember(&Member{Name: name}); (err == nil) != legal {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestViewMember finds members by name.
func TestViewMember(t *testing.T) {
	v := View{Members: []Member{{Name: "a", Weight: 1}, {Name: "b", Weight: 2}}}
	if m := v.Member("b"); m == nil || m.Weight != 2 || v.Member("c") != nil {
		t.Errorf("%+v", m)
	}
}
