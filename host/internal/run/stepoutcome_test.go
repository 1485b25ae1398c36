package run

import (
	"testing"

	"github.com/wfhost/wfhost/abi"
)

// TestReported reads failure reports of bodies and step functions, and what is none.
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
