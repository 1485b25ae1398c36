package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestFitted fits tables to terminals of different widths: no line is too long, ids are not cut, and the widest
// columns shrink.
func TestFitted(t *testing.T) {
	id := strings.Repeat("i", 36)
	rows := [][]string{{"RUN", "WORKFLOW", "STATUS", "REASON"}, {id, "orders@3", "failed", strings.Repeat("why ", 30)},
		{"short", strings.Repeat("w", 60) + "@1", "sleeping", ""}}
	for _, width := range []int{70, 80, 100, 200} {
		for _, line := range strings.Split(fitted(rows, width, false), "\n") {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("%d characters at a width of %d: %s", n, width, line)
			}
		}
	}
	if text := fitted(rows, 80, false); !strings.Contains(text, id+"  ") || !strings.Contains(text, "…") || strings.Contains(text, "\x1b") {
		t.Error(text)
	}
	if text := fitted(rows, 0, true); !strings.Contains(text, "\x1b[31mfailed\x1b[0m") || strings.Contains(text, "…") {
		t.Errorf("%q", text)
	}
	if text := fitted(rows, 10, false); !strings.Contains(text, id) { // it cannot fit
		t.Error(text)
	}
}

func TestNoColour(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if !coloured() {
		t.Error("no colours")
	}
	t.Setenv("NO_COLOR", "1")
	if coloured() {
		t.Error("colours in spite of NO_COLOR")
	}
}

// TestInstant shows an instant with its zone, or in UTC on request.
func TestInstant(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 5e6, time.FixedZone("", 3600))
	inUTC.Store(true)
	defer inUTC.Store(false)
	if got := instant(at); got != "2026-01-31T11:00:00.005Z" {
		t.Error(got)
	}
}

// TestExitStatusesAreDocumented compares docs/interfaces/cli.md with the exit codes in the code.
func TestExitStatusesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/interfaces/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range exits {
		if row := fmt.Sprintf("| %d | %s |", x.code, x.says); !strings.Contains(string(text), row) {
			t.Errorf("docs/interfaces/cli.md has no row %q", row)
		}
	}
	if code, out, _ := command("help"); code != exitOK || !strings.Contains(out, "  8  "+exits[8].says) {
		t.Error(code, out)
	}
}
