package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/host/httpapi"
)

// TestEntryLine writes payloads whole in journals, and cuts them where a line is all that there is.
func TestEntryLine(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 5000), strings.Repeat("😀", 70), "<a&b>"} {
		e := httpapi.Entry{Kind: "step_result", Data: text}
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

// TestReadable: payloads that are no JSON are shown as text where they are one.
func TestReadable(t *testing.T) {
	coded := []string{"data"}
	for _, c := range []struct {
		coded   []string
		v, want any
	}{
		{coded, "aGk=", "hi"}, {coded, json.RawMessage(`"aGk="`), "hi"}, {coded, []byte("hi"), "hi"}, {coded, "/wA=", "/wA="},
		{nil, "aGk=", "aGk="},
	} {
		if got := readable(c.coded, "data", c.v); got != c.want {
			t.Errorf("%T %v is shown as %v, not %v", c.v, c.v, got, c.want)
		}
	}
}
