package wazero

import (
	"slices"
	"testing"
)

// The most recently used item is used next; the one that was idle longest is evicted.
func TestIdlePool(t *testing.T) {
	p := NewIdle[string, int](30)
	for i := range 4 {
		over, kept := p.Put("ab"[i%2:i%2+1], i, 10)
		if want := []int{0}; !kept || (i == 3) != slices.Equal(over, want) {
			t.Error(i, over, kept)
		}
	}
	if n, bytes := p.Len(); n != 3 || bytes != 30 {
		t.Error(n, bytes)
	}
	if _, kept := p.Put("a", 9, 31); kept {
		t.Error("what is larger than the pool was kept")
	}
	if i, ok := p.Take("b"); i != 3 || !ok {
		t.Error(i, ok)
	}
	if _, ok := p.Take("c"); ok {
		t.Error("something of an unknown key")
	}
	if all := p.Drop("b"); !slices.Equal(all, []int{1}) {
		t.Error(all)
	}
	if all := p.Close(); !slices.Equal(all, []int{2}) {
		t.Error(all)
	}
	if n, bytes := p.Len(); n != 0 || bytes != 0 || len(p.idle) != 0 {
		t.Error(n, bytes, p.idle)
	}
	if _, kept := p.Put("a", 1, 1); kept {
		t.Error("a closed pool keeps something")
	}
}

// An idle item is kept for one to two intervals of Trim.
func TestTrim(t *testing.T) {
	p := NewIdle[string, int](100)
	p.Put("a", 1, 10)
	if old, left := p.Trim(); len(old) != 0 || left != 1 {
		t.Error(old, left)
	}
	p.Put("a", 2, 10)
	if old, left := p.Trim(); !slices.Equal(old, []int{1}) || left != 1 {
		t.Error(old, left)
	}
	if i, ok := p.Take("a"); i != 2 || !ok {
		t.Error(i, ok)
	}
	p.Put("a", 2, 10) // it was used: it is young again
	if old, left := p.Trim(); len(old) != 0 || left != 1 {
		t.Error(old, left)
	}
	if old, left := p.Trim(); !slices.Equal(old, []int{2}) || left != 0 {
		t.Error(old, left)
	}
}
