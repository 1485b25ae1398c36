package main

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"path"
	"slices"
	"strings"
)

const (
	width     = 1200.0
	margin    = 10.0
	row       = 16
	above     = 48    // title and legend
	charWidth = 6.3   // of the font, a little more than it is
	least     = 0.003 // frames with a smaller share are left out
	leastText = 3     // characters: less says nothing
)

// kind is where functions come from.
type kind struct{ prefix, name, colour string }

var kinds = []kind{
	{"wfhost/", "wfhost", "#f2a65a"},
	{"cockroachdb/", "Pebble", "#7fb7e0"},
	{"tetratelabs/wazero", "wazero", "#b79be0"},
	{guestCode, guestCode, "#8fcf8f"},
	{"", "Go runtime, libraries", "#d9d9d9"},
}

func kindOf(name string) kind {
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return strings.HasPrefix(name, k.prefix) })]
}

// canvas is a picture that grows.
type canvas struct {
	strings.Builder

	all    *frame
	bottom int // of the outermost frame
}

func (c *canvas) printf(format string, args ...any) { _, _ = fmt.Fprintf(c, format, args...) }

// share of all the time.
func (c *canvas) share(f *frame) float64 { return float64(f.time) / float64(c.all.time) }

// shown gives the callees that are large enough, by their names.
func (c *canvas) shown(f *frame) []*frame {
	return slices.SortedFunc(func(yield func(*frame) bool) {
		for g := range maps.Values(f.callee) {
			if c.share(g) >= least && !yield(g) {
				return
			}
		}
	}, func(a, b *frame) int { return cmp.Compare(a.name, b.name) })
}

func (c *canvas) depth(f *frame) int {
	deepest := 0
	for _, g := range c.shown(f) {
		deepest = max(deepest, c.depth(g))
	}
	return deepest + 1
}

// frame draws a frame, and what it calls above it.
func (c *canvas) frame(f *frame, x float64, level int) {
	w, y := c.share(f)*(width-2*margin), c.bottom-(level+1)*row
	c.printf("<g><title>%s, %.1f %%</title><rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>",
		html.EscapeString(f.name), 100*c.share(f), x, y, w, row-1, kindOf(f.name).colour)
	if text := clip(path.Base(f.name), int((w-4)/charWidth)); text != "" {
		c.printf("<text x=\"%.1f\" y=\"%d\">%s</text>", x+2, y+row-5, html.EscapeString(text))
	}
	c.printf("</g>\n")
	for _, g := range c.shown(f) {
		c.frame(g, x, level+1)
		x += c.share(g) * (width - 2*margin)
	}
}

// clip shortens a text to so many characters.
func clip(text string, n int) string {
	switch r := []rune(strings.NewReplacer("(*", "", ")", "").Replace(text)); {
	case len(r) <= n:
		return string(r)
	case n < leastText:
		return ""
	default:
		return string(r[:n-1]) + "…"
	}
}

// picture draws a flame graph: callers below, what they call above them, as wide as the share of the time.
func picture(title string, all *frame) string {
	c := &canvas{all: all}
	c.bottom = above + c.depth(all)*row
	c.printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %d\" width=\"%.0f\" height=\"%d\" "+
		"font-family=\"DejaVu Sans Mono,Menlo,Consolas,monospace\" font-size=\"10\">\n", width, c.bottom+int(margin), width,
		c.bottom+int(margin))
	c.printf("<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n<text x=\"%.0f\" y=\"18\" font-size=\"14\">%s</text>\n",
		margin, html.EscapeString(title))
	x := margin
	for _, k := range kinds {
		c.printf("<rect x=\"%.0f\" y=\"27\" width=\"12\" height=\"12\" fill=\"%s\"/><text x=\"%.0f\" y=\"37\">%s</text>\n",
			x, k.colour, x+16, html.EscapeString(k.name))
		x += 40 + charWidth*float64(len(k.name))
	}
	c.frame(all, margin, 0)
	c.printf("</svg>\n")
	return c.String()
}
