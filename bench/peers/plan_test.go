//go:build linux

package main

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wfhost/wfhost/bench/peers/engine"
	"github.com/wfhost/wfhost/bench/peers/proc"
)

// TestPlan: each workload of the full plan has a row and the other way round, and the quick plan has nothing of its own.
func TestPlan(t *testing.T) {
	var full, quick, shown []string
	for _, s := range plan(false) {
		for _, p := range s.parts {
			full = append(full, p.name)
		}
	}
	for _, s := range plan(true) {
		for _, p := range s.parts {
			quick = append(quick, p.name)
		}
	}
	for _, r := range rows() {
		shown = append(shown, r.Workload)
		if !slices.Contains(full, r.Workload) {
			t.Errorf("the row %q is of %q, which is not in the plan", r.Label, r.Workload)
		}
	}
	for _, name := range append(full, quick...) {
		if !slices.Contains(shown, name) || !slices.Contains(full, name) {
			t.Errorf("%q is not in the table or not in the full plan", name)
		}
	}
}

func TestOptions(t *testing.T) {
	good := options{rounds: 3, large: "all", output: "table", engines: "wfhost,DBOS", sessions: "history,steps"}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*options){
		"-rounds must be from 1 to 100, got 0":                    func(o *options) { o.rounds = 0 },
		`-large must be all, wfhost or none, got "some"`:          func(o *options) { o.large = "some" },
		`-o must be table or json, got "xml"`:                     func(o *options) { o.output = "xml" },
		`-engines takes wfhost, Restate and DBOS, got "Temporal"`: func(o *options) { o.engines = "wfhost,Temporal" },
		`-sessions: there is no session "naps"`:                   func(o *options) { o.sessions = "naps" },
	} {
		o := good
		change(&o)
		if err := o.check(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestMissing: an engine that is not installed is named with the way to install it.
func TestMissing(t *testing.T) {
	c := &conductor{options: options{engines: "wfhost,Restate,DBOS", postgres: t.TempDir(), restate: "/nowhere"}}
	if err := c.find(); err != nil || !slices.Equal(c.engines, []string{engine.Wfhost}) || len(c.missing) != 2 {
		t.Fatal(c.engines, c.missing, err)
	}
	if !strings.Contains(c.missing[0], "make bench-peers-install") || !strings.Contains(c.missing[1], "apt-get install postgresql") {
		t.Errorf("%q", c.missing)
	}
	c = (&conductor{options: options{engines: "DBOS"}})
	if c.find() == nil {
		t.Error("nothing is installed, which is no error")
	}
}

// TestServer: a server is stopped by its signal, and one that has ended says what it logged.
func TestServer(t *testing.T) {
	s, err := proc.Start(proc.Spec{Name: "sleep", Args: []string{"sleep", "60"}, Dir: t.TempDir(), Quit: syscall.SIGTERM})
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := s.Stop(); err != nil || time.Since(begun) > 10*time.Second {
		t.Error(err, time.Since(begun))
	}
	s, err = proc.Start(proc.Spec{Name: "broken", Args: []string{"sh", "-c", "echo no disk; exit 3"}, Dir: t.TempDir(), Quit: syscall.SIGTERM})
	if err != nil {
		t.Fatal(err)
	}
	<-s.Ended()
	if err := s.Stop(); err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Error(err)
	}
	if _, err := proc.Start(proc.Spec{Name: "none", Args: []string{"/nowhere"}, Dir: t.TempDir()}); err == nil {
		t.Error("a program that is not there was started")
	}
}

// TestVersions: the README and the Makefile name the versions that are used.
func TestVersions(t *testing.T) {
	read := func(file string) string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	readme := read("README.md")
	if v := engine.RestateVersion; !strings.Contains(readme, "server "+v+" ") ||
		!strings.Contains(read("../../Makefile"), "RESTATE_VERSION = "+v+"\n") {
		t.Errorf("README.md or Makefile does not say Restate %s", v)
	}
	for _, path := range []string{"github.com/dbos-inc/dbos-transact-golang ", "github.com/restatedev/sdk-go "} {
		_, rest, _ := strings.Cut(read("go.mod"), path)
		version, _, _ := strings.Cut(rest, "\n")
		if version == "" || !strings.Contains(readme, " "+version) {
			t.Errorf("README.md does not say version %q of %s", version, path)
		}
	}
}
