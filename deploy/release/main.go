// Command release builds what a release consists of: for each system and processor an archive with the binary and its licence, a
// bill of its materials (an SBOM in CycloneDX), and the checksums of all. Two builds of one commit by one release of Go have the
// same sums.
//
// Run it from the root of the repository, after `make interpreter`: that is what `make release` does.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// targets are the systems and processors for which there are binaries. `make portable` checks the same.
var targets = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// billOfMaterials is what reads a binary for the SBOM, in a version of its own, so that sums stay the same.
const billOfMaterials = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"

// Where in the repository is what a release has or needs.
const (
	versionFile     = "cmd/wfhost/version.go"
	changesFile     = "CHANGELOG.md"
	interpreterFile = "definition/module/built/interpreter.wasm.gz"
)

// beside are the files beside the binary in each archive.
var beside = []string{"LICENSE", "README.md", changesFile}

// release is what is built.
type release struct {
	version string // v0.1.0
	commit  string // of which it is built, with + if there are changes beside it
	made    time.Time
	out     string
	tool    string // the binary that makes SBOMs
}

func main() {
	out := flag.String("out", "dist", "folder for the archives, which must be empty")
	only := flag.String("targets", strings.Join(targets, ","), "what is built")
	changed := flag.Bool("changed", false, "also build with changes that are not committed; the version says so")
	flag.Parse()
	if err := run(*out, strings.Split(*only, ","), *changed); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(out string, only []string, changed bool) error {
	r, err := newRelease(out, changed)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "wfhost-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // a leftover in a temporary folder
	r.tool, err = install(billOfMaterials, tmp)
	if err != nil {
		return err
	}
	var names []string
	for _, target := range only {
		made, err := r.build(target, tmp)
		if err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		names = append(names, made...)
		fmt.Println(strings.Join(made, "\n"))
	}
	return sums(out, names)
}

// newRelease finds out what is to be built, and refuses what would be no release.
func newRelease(out string, changed bool) (*release, error) {
	source, err := os.ReadFile(versionFile)
	if err != nil {
		return nil, fmt.Errorf("run it from the root of the repository: %w", err)
	}
	changes, err := os.ReadFile(changesFile)
	if err != nil {
		return nil, err
	}
	version, err := versionOf(source, changes)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(interpreterFile); err != nil {
		return nil, fmt.Errorf("the interpreter of definitions is not built; run make interpreter: %w", err)
	}
	commit, err := git("rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	seconds, err := git("show", "-s", "--format=%ct", "HEAD")
	if err != nil {
		return nil, err
	}
	made, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("time of the commit: %w", err)
	}
	dirty, err := git("status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if dirty != "" {
		if !changed {
			return nil, fmt.Errorf("there are changes that are not committed; commit them, or give -changed to try:\n%s", dirty)
		}
		version, commit = version+"-devel", commit+"+"
	}
	if list, err := os.ReadDir(out); err == nil && len(list) > 0 {
		return nil, fmt.Errorf("the folder %s is not empty", out)
	}
	return &release{version: version, commit: commit, made: time.Unix(made, 0).UTC(), out: out}, os.MkdirAll(out, 0o755)
}

var (
	numbered = regexp.MustCompile(`(?m)^const releaseNumber = "(v\d+\.\d+\.\d+)"$`)
	headed   = regexp.MustCompile(`(?m)^## \[?(\d+\.\d+\.\d+)\]?`)
)

// versionOf returns the release that a source is, which its list of changes must begin with.
func versionOf(source, changes []byte) (string, error) {
	number, head := numbered.FindSubmatch(source), headed.FindSubmatch(changes)
	switch {
	case number == nil:
		return "", fmt.Errorf("%s says no releaseNumber", versionFile)
	case head == nil || "v"+string(head[1]) != string(number[1]):
		return "", fmt.Errorf("the first release in %s is not %s, which %s says", changesFile, number[1], versionFile)
	}
	return string(number[1]), nil
}

func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// goCommand runs the go command with an environment that has no flags of the user's.
func goCommand(env []string, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Env = append(cmd.Environ(), append([]string{"GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0"}, env...)...)
	var messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &messages, &messages
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", args[0], err, messages.Bytes())
	}
	return nil
}

// install builds a tool into a folder.
func install(tool, dir string) (string, error) {
	err := goCommand([]string{"GOBIN=" + dir}, "install", tool)
	name, _, _ := strings.Cut(filepath.Base(tool), "@")
	return filepath.Join(dir, name), err
}

// build makes the archive and the SBOM of a target, and returns their names.
func (r *release) build(target, tmp string) ([]string, error) {
	system, processor, ok := strings.Cut(target, "/")
	if !ok {
		return nil, errors.New("it should be a system and a processor, such as linux/amd64")
	}
	name, exe := fmt.Sprintf("wfhost_%s_%s_%s", r.version, system, processor), "wfhost"
	if system == "windows" {
		exe += ".exe"
	}
	binary := filepath.Join(tmp, exe)
	flags := fmt.Sprintf("-s -w -X main.stamped=%s -X main.stampedCommit=%s", r.version, r.commit)
	// Without -buildvcs, a binary would say of which folder's state it is built, which the commit does already.
	if err := goCommand([]string{"GOOS=" + system, "GOARCH=" + processor}, "build", "-trimpath", "-buildvcs=false",
		"-ldflags="+flags, "-o", binary, "./cmd/wfhost"); err != nil {
		return nil, err
	}
	bill := name + ".cdx.json"
	cmd := exec.Command(r.tool, "bin", "-json", "-noserial", "-notimestamp", "-std", "-version", r.version, "-output",
		filepath.Join(r.out, bill), binary)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", filepath.Base(r.tool), err, out)
	}
	if err := forgetTool(filepath.Join(r.out, bill)); err != nil {
		return nil, err
	}
	files := []file{{name: name + "/" + exe, path: binary, mode: 0o755}}
	for _, b := range beside {
		files = append(files, file{name: name + "/" + b, path: b, mode: 0o644})
	}
	archive, write := name+".tar.gz", writeTar
	if system == "windows" {
		archive, write = name+".zip", writeZip
	}
	return []string{archive, bill}, write(filepath.Join(r.out, archive), files, r.made)
}
