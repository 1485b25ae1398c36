package main

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/wfhost/wfhost/host/httpapi"
)

// releaseNumber is the release that this source is, or becomes. `make release` builds it, and CHANGELOG.md begins with it.
const releaseNumber = "v0.1.0"

// stamped is the version of a binary of a release, and the commit that it was built of: `make release` sets them with
// -ldflags "-X main.stamped=… -X main.stampedCommit=…". They are empty in any other build.
var stamped, stampedCommit string

// buildVersion returns the version of the binary: the number of a release, or that of the next one with "-devel" and the commit.
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

// buildCommit returns the commit of which the binary was built, with + if there were changes beside it, "" if that is not known.
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
