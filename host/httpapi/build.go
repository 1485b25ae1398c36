package httpapi

import (
	"context"
	"net/http"
	"runtime"
	"runtime/debug"

	"github.com/danielgtaylor/huma/v2"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/store"
)

// Build identifies the program that answers and its formats.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty" doc:"with + if there were changes that were not committed"`
	ABI     string `json:"abi" doc:"the imports of modules"`
	Store   int    `json:"store_format" doc:"of what is on disk"`
	Journal int    `json:"journal_format" doc:"of records: entries of journals, and all else"`
	Go      string `json:"go"`
	System  string `json:"system" doc:"operating system and processor"`
}

// BuildOf returns the build of this program with the given version and commit.
func BuildOf(version, commit string) Build {
	return Build{version, commit, abi.ImportModule, store.FormatVersion, store.CodecVersion, runtime.Version(),
		runtime.GOOS + "/" + runtime.GOARCH}
}

// WithBuild sets the version and the commit that GET /v1/version answers. Default: the version that the Go toolchain
// wrote into the program.
func WithBuild(version, commit string) Option {
	return func(s *API) { s.build = BuildOf(version, commit) }
}

// builtAs returns the build of a program without WithBuild.
func builtAs() Build {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	return BuildOf(version, "")
}

func (s *API) registerBuild(api huma.API) {
	huma.Register(api, huma.Operation{OperationID: "version", Method: http.MethodGet, Path: "/v1/version",
		Summary: "Say which version the server is, and which formats it has"},
		func(context.Context, *struct{}) (*struct{ Body Build }, error) {
			return &struct{ Body Build }{s.build}, nil
		})
}
