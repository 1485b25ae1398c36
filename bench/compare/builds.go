package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// build is a build of one commit.
type build struct {
	commit string
	exe    string
	module string // of a Go workflow
}

// command runs a program in a folder and returns its output. Its error has what the program wrote to standard error.
func command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, errs.Bytes())
	}
	return out.Bytes(), nil
}

// builds makes the builds of a revision and of the working tree below a folder.
func builds(ctx context.Context, dir, rev string) (base, head build, err error) {
	root, err := command(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return base, head, err
	}
	at := strings.TrimSpace(string(root))
	commit, err := command(ctx, at, "git", "rev-parse", "--verify", "--quiet", rev+"^{commit}")
	if err != nil {
		return base, head, fmt.Errorf("this repository has no commit %q", rev)
	}
	now, err := command(ctx, at, "git", "rev-parse", "HEAD")
	if err != nil {
		return base, head, err
	}
	changed, err := command(ctx, at, "git", "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return base, head, err
	}
	base.commit, head.commit = strings.TrimSpace(string(commit)), strings.TrimSpace(string(now))
	if len(changed) > 0 {
		head.commit += "+"
	}
	tree := filepath.Join(dir, "base")
	tar := filepath.Join(dir, "base.tar")
	if err := os.Mkdir(tree, 0o700); err != nil {
		return base, head, err
	}
	if _, err := command(ctx, at, "git", "archive", "-o", tar, base.commit); err != nil {
		return base, head, err
	}
	if _, err := command(ctx, tree, "tar", "-xf", tar); err != nil {
		return base, head, err
	}
	return base, head, errors.Join(base.make(ctx, tree, dir, "base-"), head.make(ctx, at, dir, "head-"))
}

// make builds what a tree has into files of a folder whose names begin with prefix.
func (b *build) make(ctx context.Context, tree, dir, prefix string) error {
	if _, err := command(ctx, tree, "make", "build"); err != nil {
		return err
	}
	b.exe, b.module = filepath.Join(dir, prefix+"wfhost"), filepath.Join(dir, prefix+"module.wasm")
	if _, err := command(ctx, tree, "cp", "bin/wfhost", b.exe); err != nil {
		return err
	}
	_, err := command(ctx, tree, "env", "GOOS=wasip1", "GOARCH=wasm", "go", "build", "-trimpath", "-buildmode=c-shared",
		"-o", b.module, "./examples/drip")
	return err
}

// measure runs a measurement and returns its figures by their keys. Commands that are no benchmark have wallMs and cpuMs.
func (b *build) measure(ctx context.Context, m *measurement, dir string) (map[string]float64, error) {
	args := make([]string, 0, len(m.args)+2)
	for _, a := range m.args {
		if a == moduleArg {
			a = b.module
		}
		args = append(args, a)
	}
	if m.bench() && dir != "" {
		args = append(args, "--dir", dir)
	}
	cmd := exec.CommandContext(ctx, b.exe, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s of %s: %w\n%s", m.name, short(b.commit), err, errs.Bytes())
	}
	wall := time.Since(began)
	var all map[string]any
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		return nil, fmt.Errorf("%s of %s: its output is no JSON: %w", m.name, short(b.commit), err)
	}
	if !m.bench() {
		all["wallMs"] = float64(wall) / float64(time.Millisecond)
		all["cpuMs"] = float64(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()) / float64(time.Millisecond)
	}
	figures := map[string]float64{}
	for _, f := range m.figures {
		v, ok := all[f.key].(float64)
		if !ok {
			return nil, fmt.Errorf("%s of %s has no figure %q", m.name, short(b.commit), f.key)
		}
		figures[f.key] = v
	}
	return figures, nil
}
