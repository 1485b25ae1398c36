package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wfhost/wfhost/host"
)

// source names the place of secrets: file:PATH, env:NAME, command:PROGRAM ARGUMENT…, or a path.
type source string

// Limits of a source.
const (
	// maxSourceBytes bounds a source: several thousand keys or secrets.
	maxSourceBytes = 1 << 20
	// sourceTime bounds the run time of a command, which may ask a key service over the network.
	sourceTime = 30 * time.Second
	// sourceAge is how long the output of a command is used before the command runs again, to see changed secrets.
	sourceAge = time.Minute
)

// keyBytes is the size of a key of --encryption-keys, for AES-256.
const keyBytes = 32

// othersMode are the permission bits of group and others, which a private file must not have.
const othersMode = 0o077

// errOutput is returned if a program prints too much.
var errOutput = fmt.Errorf("it is longer than %d bytes", maxSourceBytes)

// Validate refuses a source that is itself a secret, pasted by mistake. kong calls it and does not show the value.
func (s source) Validate() error {
	words := strings.FieldsFunc(string(s), func(r rune) bool { return r <= ' ' || r == ':' })
	isKey := func(word string) bool {
		raw, err := base64.StdEncoding.DecodeString(word)
		return err == nil && len(raw) == keyBytes
	}
	if slices.ContainsFunc(words, isKey) || strings.HasPrefix(strings.TrimSpace(string(s)), "{") {
		return errors.New("it is a secret itself, where it should say where that is: file:PATH, env:NAME or command:PROGRAM; other " +
			"users of this machine may have seen it, so make a new one")
	}
	return nil
}

// read returns the contents of the source. Its errors never contain them.
func (s source) read(ctx context.Context, stderr io.Writer) ([]byte, error) {
	if name, ok := strings.CutPrefix(string(s), "env:"); ok {
		text, set := os.LookupEnv(name)
		if !set {
			return nil, fmt.Errorf("the environment has no %s", name)
		}
		return []byte(text), nil
	}
	if line, ok := strings.CutPrefix(string(s), "command:"); ok {
		return runSource(ctx, line, stderr)
	}
	return readPrivate(strings.TrimPrefix(string(s), "file:"))
}

// readPrivate reads a file. It refuses a file that other users may read or write.
func readPrivate(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&othersMode != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("%s has mode %04o, with which others can read or change it: chmod 600 %s", path, mode, path)
	}
	return readBounded(path, f)
}

func readBounded(what string, r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxSourceBytes+1))
	if err == nil && len(b) > maxSourceBytes {
		err = errOutput
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return b, nil
}

// runSource runs a program without a shell and returns its output.
func runSource(ctx context.Context, line string, stderr io.Writer) ([]byte, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return nil, errors.New("command: names no program")
	}
	ctx, cancel := context.WithTimeout(ctx, sourceTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stderr = stderr
	cmd.WaitDelay = time.Second // for child processes that it leaves running
	out := &boundedBuffer{}
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("it has not ended within %v", sourceTime)
		}
		return nil, fmt.Errorf("command %s: %w", words[0], errors.Join(err, out.err))
	}
	return out.b.Bytes(), nil
}

// boundedBuffer collects output up to maxSourceBytes.
type boundedBuffer struct {
	b   bytes.Buffer
	err error
}

// Write fails beyond the bound.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.b.Len()+len(p) > maxSourceBytes {
		b.err = errOutput
		return 0, errOutput
	}
	return b.b.Write(p)
}

// keyring reads the keys of a source, nil if there is no source.
func (s source) keyring(g *globals) (host.Codec, error) {
	if s == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	text, err := s.read(g.ctx, g.io.err)
	if err != nil {
		return nil, fmt.Errorf("encryption keys: %w", err)
	}
	r, err := host.ParseKeyring(text)
	if err != nil {
		return nil, fmt.Errorf("encryption keys: %w", err)
	}
	return r, nil
}

// secrets are the secrets of a source. A file or variable is read for each use. A command runs again after sourceAge.
type secrets struct {
	from source
	g    *globals
	log  *slog.Logger

	mu   sync.Mutex
	last map[string]string
	at   time.Time // of last
}

// openSecrets reads the secrets once, to report errors early, and returns a function that looks one up. The function is nil
// if there is no source.
func (g *globals) openSecrets(from source, log *slog.Logger) (func(string) (string, bool), error) {
	if from == "" {
		return nil, nil //nolint:nilnil // there are none
	}
	s := &secrets{from: from, g: g, log: log}
	if _, err := s.all(time.Now()); err != nil {
		return nil, err
	}
	return s.secret, nil
}

// secret returns a secret. It logs read errors. The request that needs the secret then fails, unless an older value is
// known.
func (s *secrets) secret(name string) (string, bool) {
	all, err := s.all(time.Now())
	if err != nil {
		s.log.Error("secrets cannot be read", "cause", err)
	}
	v, ok := all[name]
	return v, ok
}

// all returns the current secrets. If a command fails, it returns the last known secrets and the error.
func (s *secrets) all(now time.Time) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	command := strings.HasPrefix(string(s.from), "command:")
	if command && s.last != nil && now.Sub(s.at) < sourceAge {
		return s.last, nil
	}
	s.at = now
	b, err := s.from.read(context.WithoutCancel(s.g.ctx), s.g.io.err) // steps during a drain need them too
	if err != nil {
		if !command {
			s.last = nil
		}
		return s.last, fmt.Errorf("secrets: %w", err)
	}
	var fresh map[string]string
	if json.Unmarshal(b, &fresh) != nil || fresh == nil {
		if !command {
			s.last = nil
		}
		return s.last, fmt.Errorf("secrets: %s is no JSON object of strings", s.from)
	}
	s.last = fresh
	return s.last, nil
}
