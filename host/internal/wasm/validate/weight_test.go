package validate

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
)

// function returns a body with n locals of a type.
func function(locals int, kind byte, instructions ...byte) []byte {
	b := cat([]byte{1}, leb(uint64(locals)), []byte{kind}, instructions, []byte{0x0b})
	return cat(leb(uint64(len(b))), b)
}

// many returns a module with an entry point and n functions of a type with the same body.
func many(n int, typ, body []byte) []byte {
	indexes, bodies := [][]byte{leb(0)}, [][]byte{{4, 0, 0x41, 0, 0x0b}}
	for range n {
		indexes, bodies = append(indexes, leb(1)), append(bodies, body)
	}
	thirtyTwo := vec(bytesOf(32, byte(abi.I32))...)
	types := sec(1, vec([]byte{0x60, 0, 1, 0x7f}, typ, cat([]byte{0x60}, thirtyTwo, thirtyTwo), []byte{0x60, 0, 0}))
	return cat(head, types, sec(3, vec(indexes...)), memory,
		sec(7, vec(cat(str("memory"), []byte{2, 0}), cat(str("workflow_run"), []byte{0, 0}))), sec(10, vec(bodies...)))
}

func bytesOf(n int, b byte) (list [][]byte) {
	for range n {
		list = append(list, []byte{b})
	}
	return list
}

var (
	none     = []byte{0x60, 0, 0}
	params   = cat([]byte{0x60}, vec(bytesOf(127, byte(abi.I64))...), []byte{0})
	anIf     = []byte{0x20, 0, 0x04, 0x40, 0x0b}
	aLoop    = []byte{0x03, 0x40, 0x0b}
	typed    = byte(2) // of a block: 32 parameters and results
	copies   = []byte{0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 10, 0, 0}
	grows    = []byte{0x41, 0, 0x40, 0, 0x1a}
	branches = []byte{0x20, 0, 0x0d, 0}
)

// TestDearToCompile refuses modules that would take compilers minutes or gigabytes, each quickly. Some of them have
// only a few kilobytes.
func TestDearToCompile(t *testing.T) {
	for name, c := range map[string]struct {
		wasm []byte
		want string
	}{
		"170,000 ifs":                     {many(1, none, function(1, 0x7f, rep(170_000, anIf...)...)), "too many branches (limit"},
		"eleven times 10,000 ifs":         {many(11, none, function(1, 0x7f, rep(10_000, anIf...)...)), "the module has too many branches after each other"},
		"20,000 ifs":                      {many(1, none, function(1, 0x7f, rep(20_000, anIf...)...)), "branches after each other"},
		"5,000 ifs, 4,000 locals":         {many(1, none, function(4000, 0x7f, rep(5_000, anIf...)...)), "branches times parameters and locals"},
		"45,000 predecessors":             {many(1, none, function(500, 0x7f, cat([]byte{0x02, 0x40}, rep(45_000, branches...), []byte{0x0b})...)), "branches after each other"},
		"1,000 loops with 32 parameters":  {many(1, none, function(0, 0x7f, cat(rep(1000, 0x03, typed), rep(1000, 0x0b))...)), "loops times parameters and locals"},
		"5,000 blocks of 32":              {many(1, none, function(0, 0x7f, rep(5_000, 0x02, typed, 0x0b)...)), "blocks of a function"},
		"15,000 loops":                    {many(1, none, function(1, 0x7f, rep(15_000, aLoop...)...)), "branches after each other"},
		"2,000 loops, 127 parameters":     {many(1, params, function(0, 0x7f, rep(2_000, aLoop...)...)), "loops times parameters and locals"},
		"49,000 loops":                    {many(10, none, function(0, 0x7f, rep(49_000, aLoop...)...)), "too many branches (limit"},
		"1 MB of memory.copy":             {many(1, none, function(0, 0x7f, rep(100_000, copies...)...)), "too many branches (limit"},
		"1 MB of memory.grow":             {many(1, none, function(0, 0x7f, rep(200_000, grows...)...)), "too many branches (limit"},
		"60,000 square roots":             {many(1, none, function(1, 0x7c, cat([]byte{0x20, 0}, rep(60_000, 0x9f), []byte{0x1a})...)), "computations of numbers with NaNs (limit"},
		"30,000 sums of vectors":          {many(1, none, function(1, typeV128, cat([]byte{0x20, 0}, rep(30_000, 0xfd, 0xef, 1), []byte{0x1a})...)), "a function has too many computations"},
		"50 times 49,000 square roots":    {many(50, none, function(1, 0x7c, cat([]byte{0x20, 0}, rep(49_000, 0x9f), []byte{0x1a})...)), "the module has too many computations"},
		"49,000 functions, 4,000 vectors": {many(49_000, none, function(4000, typeV128)), "the module has too many parameters and locals"},
	} {
		from := time.Now()
		_, err := Scan(c.wasm)
		var r *RejectError
		if !errors.As(err, &r) || !strings.Contains(err.Error(), c.want) || r.Got <= r.Limit || r.Limit == 0 {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if d := time.Since(from); d > time.Second {
			t.Errorf("%s: it took %v", name, d)
		}
	}
}

// TestWeights counts what each instruction adds.
func TestWeights(t *testing.T) {
	for name, c := range map[string]struct {
		code []byte
		want int64
	}{
		"nothing":     {nil, 0},
		"if":          {anIf, 1},
		"block":       {[]byte{0x02, 0x7f, 0x41, 0, 0x0b, 0x1a}, 1},
		"loop":        {aLoop, 1 + joinsOfLoop},
		"br":          {[]byte{0x0c, 0}, 0},
		"br_table":    {[]byte{0x41, 0, 0x0e, 2, 0, 0, 0}, 3},
		"memory.copy": {copies, 1},
		"memory.grow": {grows, joinsOfGrow},
		"table.grow":  {[]byte{0xd0, 0x70, 0x41, 0, 0xfc, 15, 0, 0x1a}, joinsOfGrow},
		"memory.fill": {[]byte{0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 11, 0}, 1},
		"ref.func":    {[]byte{0xd2, 0, 0x1a}, 1},
		"call":        {[]byte{0x10, 0, 0x1a}, 0},
	} {
		var b body
		s := &scanner{reader: reader{b: append(slices.Clip(c.code), opEnd)}}
		s.end = len(s.b)
		if err := s.instructions("it", &b); err != nil || b.joins != c.want {
			t.Errorf("%s: %+v, want %d: %v", name, b, c.want, err)
		}
	}
}

// TestWays compares code with and without a deep dominator tree.
func TestWays(t *testing.T) {
	// A switch of n cases, each with an if: n nested blocks, with a br_table in the innermost one.
	const n = 100
	cases := cat(rep(n+1, 0x02, 0x40), []byte{0x20, 0, 0x0e}, leb(n-1))
	for i := range n {
		cases = append(cases, byte(i))
	}
	cases = append(cases, 0x0b)
	for i := range n {
		cases = cat(cases, anIf, []byte{0x0c}, leb(uint64(n-1-i)), []byte{0x0b})
	}
	for name, c := range map[string]struct {
		code []byte
		want int64 // at most
		more int64 // than this
	}{
		"ifs in a row":           {rep(n, anIf...), n * (n + 9), n * n / 2},
		"a switch":               {cases, 3 * n * (n + 9), n * n / 2},
		"dead code":              {cat([]byte{0x00}, rep(n, anIf...)), 1, -1},
		"after br":               {cat([]byte{0x02, 0x40, 0x0c, 0}, rep(n, anIf...), []byte{0x0b}, anIf), 20, 1},
		"behind a far branch":    {cat([]byte{0x02, 0x40, 0x20, 0, 0x0d, 0}, rep(n, anIf...), []byte{0x0b}, rep(n, anIf...)), 2 * n * (n + 9), n * n},
		"branches out of blocks": {rep(n, 0x02, 0x40, 0x02, 0x40, 0x20, 0, 0x0d, 1, 0x0b, 0x0b), 4 * n * (4*n + 9), n * n},
		"both dead":              {cat([]byte{0x20, 0, 0x04, 0x40, 0x00, 0x05, 0x00, 0x0b}, anIf), 20, 2},
	} {
		var b body
		s := &scanner{reader: reader{b: append(slices.Clip(c.code), opEnd)}}
		s.end = len(s.b)
		if err := s.instructions("it", &b); err != nil || b.ways > c.want || b.ways <= c.more {
			t.Errorf("%s: %d, want at most %d and more than %d: %v", name, b.ways, c.want, c.more, err)
		}
	}
}

// TestBrokenNames accepts a name section with a fault other than in a name.
func TestBrokenNames(t *testing.T) {
	for name, section := range map[string][]byte{
		"cut":        sec(0, str("name"), []byte{1}),
		"too long":   sec(0, str("name"), []byte{1, 99, 0}),
		"names cut":  sec(0, str("name"), []byte{1, 1, 9}),
		"locals cut": sec(0, str("name"), []byte{2, 2, 1, 0}),
		"unknown":    named(77, []byte("\xff")),
		"others":     sec(0, str("producers"), []byte("\xff")),
	} {
		if _, err := Scan(cat(with(plain), section)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
