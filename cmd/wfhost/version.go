package main

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/wfhost/wfhost/host/httpapi"
)

// releaseNumber is the current or next release of this source. `make release` builds it, and CHANGELOG.md starts with it.
const releaseNumber = "v0.1.0"

// stamped and stampedCommit are the version and commit of a release binary. `make release` sets them with -ldflags
// "-X main.stamped=… -X main.stampedCommit=…". In other builds they are empty.
var stamped, stampedCommit string

// buildVersion returns the version of the binary: a release, or the next release with "-devel" and the commit.
func buildVersion() string {
	if stamped != "" {
		return stamped
	}
	info, ok := debug.ReadBuildInfo()
	if ok && info.Main.Path == modulePath && release.MatchString(info.Main.Version) { // by go install …@v0.1.0
		return info.Main.Version
	}
	commit := buildCommit()
	if commit == "" {
		return releaseNumber + "-devel"
	}
	dirty := ""
	if commit[len(commit)-1] == '+' {
		dirty = ".changed"
	}
	return releaseNumber + "-devel+" + commit[:min(12, len(commit))] + dirty
}

// buildCommit returns the commit the binary was built from, with + for uncommitted changes, "" if unknown.
func buildCommit() (commit string) {
	if stampedCommit != "" {
		return stampedCommit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	dirty := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + dirty
}

type versionCmd struct{}

func (c *versionCmd) Run(g *globals) error {
	v := httpapi.BuildOf(buildVersion(), buildCommit())
	if g.Format == "json" {
		return g.json(v)
	}
	_, err := fmt.Fprintf(g.io.out, "wfhost %s\ncommit         %s\nabi            %s\nstore format   %d\njournal format %d\n"+
		"go             %s\nsystem         %s\n", v.Version, cmp.Or(v.Commit, "-"), v.ABI, v.Store, v.Journal, v.Go, v.System)
	return err
}
