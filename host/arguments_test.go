package host_test

import (
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// TestArgumentsOfPrograms runs a program that parses its flags and reads lines. It has one argument, the workflow's
// name, and its standard input is the run's input.
func TestArgumentsOfPrograms(t *testing.T) {
	h := hosttest.New(t)
	if _, err := h.Upload(ctx, "lines", hosttest.BuildCommand(t, "testdata/arguments")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ input, want string }{
		{"one\ntwo\n\"three", `"lines" of 1, 0 flags, loud false, 3 lines`},
		{"", `"lines" of 1, 0 flags, loud false, 0 lines`},
	} {
		r, err := h.StartRaw(ctx, "lines", []byte(c.input))
		if err != nil {
			t.Fatal(err)
		}
		h.Crash()
		want(t, h.Finish(r.ID).Status, host.Completed)
		b, err := h.ResultRaw(ctx, r.ID)
		if err != nil || string(b) != c.want {
			t.Errorf("%q, %v, want %q", b, err, c.want)
		}
	}
}

// TestBytesOfWorkflows starts a workflow of the SDK whose input and result are not JSON.
func TestBytesOfWorkflows(t *testing.T) {
	h := hosttest.New(t)
	if _, err := h.Upload(ctx, "", hosttest.Build(t, "testdata/text")); err != nil {
		t.Fatal(err)
	}
	for input, shouted := range map[string]string{
		"dear \"ada\",\nhello": "shout shout\nDEAR \"ADA\",\nHELLO",
		"":                     "shout shout\n",
	} {
		r, err := h.StartRaw(ctx, "shout", []byte(input))
		if err != nil {
			t.Fatal(err)
		}
		h.Crash()
		want(t, h.Finish(r.ID).Status, host.Completed)
		b, err := h.ResultRaw(ctx, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		want(t, string(b), shouted)
	}
}
