package httpapi

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

// TestEncode encodes values like encoding/json, except that instants have three decimals and HTML is not escaped.
func TestEncode(t *testing.T) {
	at := time.Date(2026, 1, 5, 9, 30, 0, 0, time.FixedZone("x", 7200))
	for _, c := range []struct {
		v    any
		want string
	}{
		{at, `"2026-01-05T07:30:00.000Z"`},
		{at.Add(120 * time.Millisecond), `"2026-01-05T07:30:00.120Z"`},
		{abi.TimeOf(abi.MinUnixMs), `"0000-01-01T00:00:00.000Z"`},
		{abi.TimeOf(abi.MaxUnixMs), `"9999-12-31T23:59:59.999Z"`},
		{struct {
			A *time.Time `json:"a,omitempty"`
			B *time.Time `json:"b,omitempty"`
			C time.Time  `json:"c,omitzero"`
			D []byte     `json:"d"`
			E []string   `json:"e"`
			F map[string]any
		}{A: &at, D: []byte("x"), F: map[string]any{"b": 1, "a": json.RawMessage(`{"t":"2026-01-05T07:30:00Z"}`)}},
			`{"a":"2026-01-05T07:30:00.000Z","d":"eA==","e":null,"F":{"a":{"t":"2026-01-05T07:30:00Z"},"b":1}}`},
		{"<&>\u2028", "\"<&>\u2028\""},
		{host.Timer{RunID: "r", Workflow: "w", Due: at}, `{"run":"r","workflow":"w","due":"2026-01-05T07:30:00.000Z"}`},
		{host.RunCounts{host.Sleeping: 1}, `{"sleeping":1}`},
	} {
		var b bytes.Buffer
		if err := Encode(&b, c.v, ""); err != nil || b.String() != c.want+"\n" {
			t.Errorf("%#v: %s %v, want %s", c.v, b.Bytes(), err, c.want)
		}
	}
}
