package instrument

import (
	"fmt"
	"math"
	"testing"
)

// grower is a module of two functions: f grows its table by its argument, and g its memory. They return the
// instruction's result.
func grower(limits ...byte) module {
	return module{types: list{{formFunction, 1, typeI32, 1, typeI32}}, functions: list{{0}, {0}},
		tables: list{append([]byte{typeExternRef}, limits...)}, memories: list{{1, 1, 2}},
		exports: list{cat(str("f"), []byte{kindFunction, 0}), cat(str("g"), []byte{kindFunction, 1})},
		bodies: list{function(opRefNull, typeExternRef, opLocalGet, 0, opPrefixFC, fcTableGrow, 0),
			function(opLocalGet, 0, opMemoryGrow, 0)}}
}

const refused = "[4294967295]" // -1

// TestTableElements grows tables up to the largest maximum, and above it. Without that option a table grows as
// before.
func TestTableElements(t *testing.T) {
	for name, c := range map[string]struct {
		limits []byte
		bound  uint32
		first  int // elements
		most   int
	}{
		"none":            {[]byte{0, 3}, 10, 3, 10},
		"a lower maximum": {[]byte{1, 3, 5}, 10, 3, 5},
		"a higher one":    {[]byte{1, 3, 0x80, 1}, 10, 3, 10},
		"a larger table":  {[]byte{0, 12}, 10, 12, 12},
		"without bound":   {[]byte{0, 3}, 0, 3, 100},
	} {
		r, err := Rewrite(grower(c.limits...).bytes(), Options{Fuel: name != "a higher one", TableElements: c.bound})
		if err != nil {
			t.Fatal(name, err)
		}
		for engine, config := range engines {
			l, err := load(config(), nil, r, unlimited())
			if err != nil {
				t.Fatal(name, engine, err)
			}
			if got := l.outcome("f", uint64(c.most-c.first)); got != fmt.Sprint([]int{c.first}) {
				t.Errorf("%s, %s: grown to %d: %s", name, engine, c.most, got)
			}
			if got := l.outcome("f", 1); c.bound > 0 && got != refused {
				t.Errorf("%s, %s: grown over %d: %s", name, engine, c.most, got)
			}
			l.close()
		}
	}
}

// TestRefusedGrowth reports each refused growth to the host, and charges only for the attempt.
func TestRefusedGrowth(t *testing.T) {
	r, err := Rewrite(grower(1, 0, 10).bytes(), Options{Fuel: true})
	if err != nil {
		t.Fatal(err)
	}
	f, g, page := costs(opRefNull, opLocalGet)+CostFC(fcTableGrow), costs(opLocalGet, opMemoryGrow), int64(1024*Ticks)
	for engine, config := range engines {
		k := &tank{portion: 100_000, limit: math.MaxInt64}
		l, err := load(config(), nil, r, k)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range []struct {
			export string
			by     uint64
			want   string
			calls  int
			used   int64
		}{{"f", 1, "[0]", 1, f + 8}, {"f", 10, refused, 2, 2*f + 8 + deniedCost}, {"g", 1, "[1]", 2, 2*f + 8 + deniedCost + g + page},
			{"g", 1, refused, 3, 2*f + 8 + 2*g + page + 2*deniedCost}} {
			if got := l.outcome(c.export, c.by); got != c.want || k.calls != c.calls || k.used() != c.used {
				t.Errorf("%s, %d: %s, %d calls, %d used, want %+v", engine, i, got, k.calls, k.used(), c)
			}
		}
		l.close()
	}
}

// TestReferenceCost makes references in a loop.
func TestReferenceCost(t *testing.T) {
	m := module{types: list{{formFunction, 1, typeI32, 0}}, functions: list{{0}}, memories: onePage,
		exports:  list{cat(str("f"), []byte{kindFunction, 0})},
		elements: list{{3, 0, 1, 0}},
		bodies:   list{function(opLoop, blockEmpty, opRefFunc, 0, opDrop, opLocalGet, 0, opI32Const, 1, 0x6b, 0x22, 0, opBrIf, 0, opEnd)}}
	r, err := Rewrite(m.bytes(), Options{Fuel: true})
	if err != nil {
		t.Fatal(err)
	}
	for engine, config := range engines {
		k := unlimited()
		l, err := load(config(), nil, r, k)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.outcome("f", 10); got != "[]" || k.used() != 1+10*(costs(opRefFunc, opDrop, opLocalGet, opI32Const, 0x6b, opLocalTee, opBrIf)+referenceCost) {
			t.Errorf("%s: %s, %d used", engine, got, k.used())
		}
		l.close()
	}
}
