package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// A server without --no-token makes a token at each start that allows everything, for whoever may read its files. The token is
// in the file "token" of the data directory. So that the command on the same machine finds it by the address of the server
// alone, a file in the user's configuration directory, which is named after the address, holds the path of that file. The
// token is a new one each time: a process of somebody else that listens on the address after the server has ended, and to
// which a command sends the token, has one that no server accepts.

// secretMode is that of files that hold a token.
const secretMode = 0o600

// maxTokenFileBytes bounds what is read of a file that should hold a token, or the path of one.
const maxTokenFileBytes = 4096

// localToken is the token file of a server that runs, and the file that points to it.
type localToken struct{ token, pointer string }

// writeLocalToken writes the token of a server into its data directory.
func writeLocalToken(data, token string) (*localToken, error) {
	path, err := filepath.Abs(filepath.Join(data, "token"))
	if err != nil {
		return nil, err
	}
	if err := writeSecret(path, token+"\n"); err != nil {
		return nil, fmt.Errorf("write the token of this server: %w", err)
	}
	return &localToken{token: path}, nil
}

// point lets commands on the machine find the token by the address.
func (t *localToken) point(address string) error {
	path, err := pointerFile(address)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := writeSecret(path, t.token+"\n"); err != nil {
		return err
	}
	t.pointer = path
	return nil
}

// remove removes the files, unless another server has written its own meanwhile.
func (t *localToken) remove() {
	if t == nil {
		return
	}
	if to, err := readSmall(t.pointer); err == nil && to == t.token {
		_ = os.Remove(t.pointer) // it is of no use, and does no harm
	}
	_ = os.Remove(t.token) // nobody accepts the token any more
}

// writeSecret replaces a file as a whole by one that only its owner may read: whoever has the old one open, or has made it with
// other rights, does not see the new one.
func writeSecret(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".token-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // it was renamed
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Chmod(secretMode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// readSmall reads a file of one line.
func readSmall(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	b := make([]byte, maxTokenFileBytes)
	n, err := f.Read(b)
	if n == 0 && err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return strings.TrimSpace(string(b[:n])), nil
}

// pointerFile returns the file in the user's configuration directory that is named after the address of a server.
func pointerFile(address string) (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	hostname, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	ip := net.ParseIP(hostname)
	if hostname == "localhost" || hostname == "" || ip != nil && ip.IsUnspecified() {
		ip = net.IPv4(127, 0, 0, 1)
	}
	if ip == nil || !ip.IsLoopback() {
		return "", fmt.Errorf("%s is not on this machine", address)
	}
	return filepath.Join(dir, "wfhost", "servers", strings.ReplaceAll(ip.String(), ":", "_")+"_"+port), nil
}

// givenToken returns the token that the caller gave, empty if there is none: on the command line, else in the environment, where
// a file is before a text.
func (g *globals) givenToken() (string, error) {
	file, name := g.TokenFile, "--token-file"
	switch {
	case g.Token != "" && file != "":
		return "", &exitCode{exitUsage, errors.New("--token and --token-file cannot both be given")}
	case g.Token != "":
		return g.Token, nil
	case g.Env != "" && file == "": // those of the shell are for another server
		return "", nil
	case file == "":
		file, name = os.Getenv("WFHOST_TOKEN_FILE"), "WFHOST_TOKEN_FILE"
	}
	if file == "" {
		return os.Getenv("WFHOST_TOKEN"), nil
	}
	t, err := readSmall(file)
	if err != nil {
		return "", &exitCode{exitDenied, fmt.Errorf("read %s: %w", name, err)}
	}
	return t, nil
}

// tokenOf returns the token for a server: one that was given, else that of the server at the address, if that is on this machine
// and belongs to the user; empty if there is none.
func (g *globals) tokenOf() (string, error) {
	if t, err := g.givenToken(); t != "" || err != nil {
		return t, err
	}
	u, err := url.Parse(g.Server)
	if err != nil {
		return "", nil //nolint:nilerr // the request fails with a better sentence
	}
	address := u.Host
	if u.Port() == "" {
		port := "80"
		if u.Scheme == "https" {
			port = "443"
		}
		address = net.JoinHostPort(u.Hostname(), port)
	}
	pointer, err := pointerFile(address)
	if err != nil {
		return "", nil //nolint:nilerr // the server is elsewhere, or there is no such directory
	}
	path, err := readSmall(pointer)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	t, err := readSmall(path)
	if errors.Is(err, fs.ErrNotExist) { // the server was killed, and its data deleted
		return "", nil
	}
	if err != nil {
		return "", &exitCode{exitDenied, fmt.Errorf("the token of the server at %s: %w", g.Server, err)}
	}
	return t, nil
}
