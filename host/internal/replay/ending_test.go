package replay

import (
	"testing"

	"github.com/wfhost/wfhost/abi"
)

// TestOf maps what workflows return to the ends of runs.
func TestOf(t *testing.T) {
	said := func(message string) string { return "said (" + message + ")" }
	for i, c := range []struct {
		out     Outcome
		code    int32
		printed string
		want    string
	}{
		{Outcome{}, 0, "", "completed "},
		{Outcome{Result: []byte("1"), Completed: true}, 0, "printed", "completed 1"},
		{Outcome{}, 0, "printed", "completed printed"},
		{Outcome{Completed: true}, 0, "printed", "completed "},
		{Outcome{Failure: []byte("{}"), Failed: true}, 1, "printed", "failed {}"},
		{Outcome{Failure: []byte("{}"), Failed: true}, 0, "", "completed "},
		{Outcome{Failure: []byte("{}"), Failed: true, Cancelled: true}, 1, "", "cancelled {}"},
		{Outcome{Cancelled: true}, 0, "", "completed "},
		{Outcome{}, 3, "", `failed {"code":"STEP_FAILED","message":"said (the workflow returned 3)"}`},
		{Outcome{}, 0, string(make([]byte, abi.MaxPayloadBytes+1)), `failed {"code":"TOO_LARGE","message":` +
			`"standard output, which is the result of a command, is over the limit of 1048576 bytes"}`},
	} {
		e := EndEntry(c.out, c.code, []byte(c.printed), said)
		if got := e.Kind.String() + " " + string(e.Data); got != c.want {
			t.Errorf("%d: %s, want %s", i, got, c.want)
		}
	}
}
