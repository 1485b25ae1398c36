package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestYear operates an installation for a year. Time is fake; processes, disk, modules, requests and the kill are
// real. The script is testdata/year/year.txt. Most of the test's time is the compilation of five modules; the year
// itself takes seconds.
func TestYear(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles six modules")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	x := newInstallation(t)
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/year",
		Cmds: x.commands(),
		Setup: func(e *testscript.Env) error {
			x.setup(e)
			home, _ := os.UserHomeDir()
			e.Setenv("HOME", home)
			e.Setenv("TZ", "UTC")
			e.Setenv("ROOT", root)
			e.Setenv("XDG_CONFIG_HOME", os.Getenv("XDG_CONFIG_HOME"))
			for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
				out, err := exec.Command("go", "env", name).Output()
				if err != nil {
					return err
				}
				e.Setenv(name, strings.TrimSpace(string(out)))
			}
			return nil
		},
	})
}
