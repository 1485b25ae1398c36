package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/wfhost/wfhost/host/hosttest"
)

// TestHandlerFlags refuses flags without a handler's name or without a value.
func TestHandlerFlags(t *testing.T) {
	t.Setenv("SECRET", strings.Repeat("x", 24))
	const signed = "--handler-secret=env:SECRET"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--worker-handler="}, "the name of a handler is empty"},
		{[]string{"--worker-handler=host/charge"}, `leave out "host/"`},
		{[]string{"--worker-handler=http"}, "there is a handler of that name"},
		{[]string{"--worker-handler=a", "--worker-handler=a"}, "there is a handler of that name"},
		{[]string{signed}, "signs the requests of --handler, and there is none"},
		{[]string{"--handler=x=http://a"}, "--handler needs --handler-secret"},
		{[]string{"--handler=x", signed}, `--handler takes NAME=URL, such as charge=https://pay.internal/charge, got "x"`},
		{[]string{"--handler==http://a", signed}, "it is empty"},
		{[]string{"--handler=charge=ftp://x", signed}, `got "ftp://x"`},
		{[]string{"--handler=host/charge=http://x", signed}, `leave out "host/"`},
		{[]string{"--worker-handler=a,b", "--worker-handler=charge", "--handler=x=http://a/?b=c,d", signed}, ""},
	} {
		var flags serveCmd
		p, err := kong.New(&flags, append(flagTypes(), kong.Exit(func(int) {}), kong.Vars{})...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Parse(append([]string{"--data=x"}, c.args...)); err != nil {
			t.Fatal(c.args, err)
		}
		_, err = flags.register(&globals{ctx: t.Context()}, hosttest.New(t).Host, flags.WorkerHandler)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
}
