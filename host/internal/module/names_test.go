package module

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// TestNames reads names with a description, without one, and with an unreadable one.
func TestNames(t *testing.T) {
	var c NamesCache
	read := 0
	ask := func(module byte, workflow, description string, err error) Names {
		return c.Of([32]byte{module}, workflow, func() ([]byte, error) { read++; return []byte(description), err })
	}
	const description = `{"workflows":[{"name":"other"},{"name":"w","queries":["q"],"signals":["s","t"],"updates":["u"]}]}`
	want := Names{[]string{"q"}, []string{"s", "t"}, []string{"u"}}
	for range 3 {
		got := ask(1, "w", description, nil)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v", got)
		}
		got.Signals[0] = "changed by a caller"
	}
	if read != 1 {
		t.Errorf("the description was read %d times", read)
	}
	for i, text := range []string{"", "rubbish", `{"workflows":[]}`} {
		for range 2 {
			if got := ask(byte(2+i), "w", text, nil); !reflect.DeepEqual(got, Names{}) {
				t.Errorf("%q: %+v", text, got)
			}
		}
	}
	if read != 4 {
		t.Errorf("descriptions were read %d times, want 4", read)
	}
	if got := ask(9, "w", description, errors.New("disk")); !reflect.DeepEqual(got, Names{}) {
		t.Errorf("%+v", got)
	}
	if got := ask(9, "w", description, nil); !reflect.DeepEqual(got, want) {
		t.Errorf("after an error: %+v", got)
	}
}

// TestNamesAreBounded caches the names of many workflows, and of one that exceeds the cache: the most recently used
// are kept.
func TestNamesAreBounded(t *testing.T) {
	var c NamesCache
	read := 0
	ask := func(i int, name string) {
		c.Of([32]byte{byte(i), byte(i >> 8)}, "w", func() ([]byte, error) {
			read++
			return fmt.Appendf(nil, `{"workflows":[{"name":"w","signals":[%q]}]}`, name), nil
		})
	}
	const many = 3000
	for i := range many {
		ask(i, strings.Repeat("x", 1000))
		ask(0, "")
	}
	if c.list.Bytes() > CacheBytes || len(c.entries) > CacheBytes/1000 || len(c.entries) < 1000 {
		t.Errorf("%d workflows take %d bytes", len(c.entries), c.list.Bytes())
	}
	if read != many {
		t.Errorf("%d descriptions were read, want %d", read, many)
	}
	ask(many, strings.Repeat("x", CacheBytes))
	if len(c.entries) != 0 || c.list.Bytes() != 0 {
		t.Errorf("%d workflows take %d bytes", len(c.entries), c.list.Bytes())
	}
}
