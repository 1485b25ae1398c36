package run

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
)

// TestReported parses failure reports of bodies and step functions, and invalid ones.
func TestReported(t *testing.T) {
	for report, want := range map[string]struct {
		message, kind, typ string
		retryable          bool
		afterMs            int64
	}{
		`{"message":"no","type":"Empty","retryable":false}`:         {"no", abi.KindError, "Empty", false, -1},
		`{"message":"no","kind":"trap","stack":"at f"}`:             {"no", abi.KindTrap, "", true, -1},
		`{"message":"later","retry_after_ms":5}`:                    {"later", abi.KindError, "", true, 5},
		`{"message":"now","retry_after_ms":-5,"kind":"of its own"}`: {"now", abi.KindError, "", true, 0},
		`{"message":"no","retryable":false,"retry_after_ms":1e30}`: {`{"message":"no","retryable":false,"retry_after_ms":1e30}`,
			abi.KindError, "", false, -1},
		`{"message":"","type":"errors.errorString"}`: {"the step failed without a message", abi.KindError, "errors.errorString", true, -1},
		`{"error":"of its own"}`:                     {`{"error":"of its own"}`, abi.KindError, "", true, -1},
		"plain \xff text":                            {"plain � text", abi.KindError, "", true, -1},
		"":                                           {"the step failed without a message", abi.KindError, "", true, -1},
	} {
		out := ReportedOutcome([]byte(report))
		if e := out.Err; e.Message != want.message || e.Kind != want.kind || e.Type != want.typ || e.Retryable != want.retryable ||
			out.RetryAfterMs != want.afterMs {
			t.Errorf("%q: %+v, after %d ms, want %+v", report, e, out.RetryAfterMs, want)
		}
	}
}

// TestErrorsFit records errors that are larger as JSON than as reports, or together with their history: a workflow
// can fail with them.
func TestErrorsFit(t *testing.T) {
	for name, e := range map[string]abi.Error{
		"stack":  {Message: "no", Details: map[string]string{"stack": strings.Repeat("<", 900<<10)}},
		"type":   {Message: "no", Type: strings.Repeat("\xff", 900<<10)},
		"almost": {Message: strings.Repeat("x", abi.MaxPayloadBytes-historyBytes)},
	} {
		if b, err := encoded(&e); err != nil || len(b) > abi.MaxPayloadBytes-historyBytes {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	if b, err := json.Marshal(map[string]any{"details": nil, "history": []Tried(nil), "left_out": 1_000_000}); err != nil ||
		len(b)+len(`"details":`) > historyBytes {
		t.Errorf("a history without attempts has %d bytes, %v", len(b), err)
	}
}

// TestLongReports parses reports over the limit: their texts are truncated between characters, and the error fits.
func TestLongReports(t *testing.T) {
	const long = abi.MaxPayloadBytes
	message := "x" + strings.Repeat("é", maxMessageBytes/2-1) + "…" // one byte less than the limit, so that no character is cut
	control := strings.Repeat(`\u0001`, long/6)
	for name, c := range map[string]struct {
		report, message string
		kind, typ       string
		stack           int
		retryable       bool
		afterMs         int64
	}{
		"message": {`{"message":"x` + strings.Repeat("é", long) + `","type":"Huge","kind":"trap","retryable":false}`, message,
			abi.KindTrap, "Huge", 0, false, -1},
		"all": {`{"retry_after_ms":5,"message":"` + control + `","stack":"` + control + `","type":"` + control + `"}`,
			strings.Repeat("\x01", maxMessageBytes) + "…", abi.KindError, strings.Repeat("\x01", maxTypeBytes) + "…",
			maxStackBytes + len("…"), true, 5},
		"details":    {`{"message":"no","details":"` + strings.Repeat("x", long) + `"}`, "no", abi.KindError, "", 0, true, -1},
		"other JSON": {`"x` + strings.Repeat("é", long) + `"`, `"` + message, abi.KindError, "", 0, true, -1},
		"text":       {"x" + strings.Repeat("é", long), message, abi.KindError, "", 0, true, -1},
		"not UTF-8": {strings.Repeat("\xffx", long), strings.Repeat("�x", maxMessageBytes/4) + "…",
			abi.KindError, "", 0, true, -1},
		"a cut one": {`{"message":"` + strings.Repeat("x", long), `{"message":"` + strings.Repeat("x", maxMessageBytes-12) + "…",
			abi.KindError, "", 0, true, -1},
	} {
		out := ReportedOutcome([]byte(c.report))
		e := *out.Err
		stack := 0
		if details, ok := e.Details.(map[string]string); ok {
			stack = len(details["stack"])
		}
		if e.Message != c.message || e.Kind != c.kind || e.Type != c.typ || stack != c.stack || e.Retryable != c.retryable ||
			out.RetryAfterMs != c.afterMs {
			t.Errorf("%s: a message of %d bytes, want %d; kind %s, type of %d bytes, stack of %d, %t, %d ms", name, len(e.Message),
				len(c.message), e.Kind, len(e.Type), stack, e.Retryable, out.RetryAfterMs)
		}
		if b, err := json.Marshal(&e); err != nil || len(b) > abi.MaxPayloadBytes {
			t.Errorf("%s: the error has %d bytes: %v", name, len(b), err)
		}
	}
}
