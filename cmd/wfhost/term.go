package main

import (
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"
)

// leastColumn is the minimum width to which columns shrink to fit the terminal.
const leastColumn = 8

// columns returns the number of characters per line from COLUMNS or the terminal, 0 if unknown.
func columns(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if f, ok := w.(*os.File); ok {
		return terminalWidth(f)
	}
	return 0
}

// coloured reports whether a terminal shows colours: not if NO_COLOR is not empty (no-color.org), nor on a dumb terminal.
func coloured() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }

// fitted lays out rows in columns, with lines of at most width characters; 0 = no limit. The first row is the header. The first
// column is never shortened, since people copy ids; the widest of the other columns shrink.
func fitted(rows [][]string, width int, colours bool) string {
	wide := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, text := range r {
			wide[i] = max(wide[i], utf8.RuneCountInString(text))
		}
	}
	if width > 0 {
		narrow(wide, width-2*(len(wide)-1))
	}
	var b strings.Builder
	for n, r := range rows {
		var line strings.Builder
		for i, text := range r {
			if runes := []rune(text); len(runes) > wide[i] {
				text = string(runes[:wide[i]-1]) + "…"
			}
			if pad := wide[i] - utf8.RuneCountInString(text); i < len(r)-1 {
				line.WriteString(paint(text, n > 0 && colours && rows[0][i] == "STATUS") + strings.Repeat(" ", pad+2))
			} else {
				line.WriteString(paint(text, n > 0 && colours && rows[0][i] == "STATUS"))
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// narrow shrinks the columns, except the first, until they fit or cannot shrink further.
func narrow(wide []int, width int) {
	for {
		sum, widest := wide[0], 0
		for i := 1; i < len(wide); i++ {
			sum += wide[i]
			if widest == 0 || wide[i] > wide[widest] {
				widest = i
			}
		}
		if sum <= width || widest == 0 || wide[widest] <= leastColumn {
			return
		}
		wide[widest] = max(wide[widest]-(sum-width), leastColumn, secondWidest(wide, widest))
	}
}

// secondWidest returns how narrow the widest column may become in one step: as narrow as the second widest, and at least one
// less than before.
func secondWidest(wide []int, widest int) (second int) {
	for i := 1; i < len(wide); i++ {
		if i != widest {
			second = max(second, wide[i])
		}
	}
	return min(second, wide[widest]-1)
}

// colourOf maps statuses to ANSI colours: red needs attention, green or grey is over, blue waits.
var colourOf = map[string]string{"failed": "31", "stuck": "31;1", "completed": "32", "running": "33", "queued": "33",
	"sleeping": "34",
	"waiting":  "34", "paused": "35", "cancelled": "90", "terminated": "90", "failing": "31", "active": "32", "ended": "90",
	"ok": "32", "warn": "33", "fail": "31;1", "skip": "90"}

// paint colours a status.
func paint(text string, colours bool) string {
	if c := colourOf[text]; colours && c != "" {
		return "\x1b[" + c + "m" + text + "\x1b[0m"
	}
	return text
}
