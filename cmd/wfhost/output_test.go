package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host/httpapi"
)

// TestEntryLine prints payloads in full in journals, and shortens them where an entry has one line.
func TestEntryLine(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 5000), strings.Repeat("😀", 70), "<a&b>"} {
		e := httpapi.Entry{Kind: "step_result", Data: json.RawMessage(`"` + text + `"`)}
		if line := entryLine(e); !strings.HasSuffix(line, ` "`+text+`"`) {
			t.Errorf("%.100s", line)
		}
		if cut := details(e, short); len([]rune(cut)) > 80 {
			t.Errorf("%d characters: %s", len([]rune(cut)), cut)
		}
	}
	if cut := short(strings.Repeat("😀", 90)); !strings.HasSuffix(cut, "😀…") || len([]rune(cut)) != 80 {
		t.Error(cut)
	}
}

// TestReadable shows payloads that are not JSON as text if they are text.
func TestReadable(t *testing.T) {
	coded := []string{"data"}
	for _, c := range []struct {
		coded   []string
		v, want string
	}{
		{coded, `"aGk="`, `"hi"`}, {coded, `"/wA="`, `"/wA="`}, {nil, `"aGk="`, `"aGk="`}, {nil, "", ""}, {nil, "null", "null"},
		{nil, "9007199254740993", "9007199254740993"}, {nil, "1.0", "1.0"}, {nil, "1e400", "1e400"}, {nil, `{"b":-0,"a":1,"a":2}`, `{"b":-0,"a":1,"a":2}`},
	} {
		if got := whole(readable(c.coded, "data", json.RawMessage(c.v))); got != c.want {
			t.Errorf("%s is shown as %s, not %s", c.v, got, c.want)
		}
	}
}
