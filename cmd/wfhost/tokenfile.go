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

// Without --no-token, a server creates at each start a token that allows everything, for users who may read its files. The
// token is in the file "token" of the data directory. A file in the user's configuration directory, named after the server's
// address, holds the path of that file, so commands on the same machine find the token by the address. The token changes
// with every start. So if another user's process listens on the address after the server has ended, and a command sends it
// the token, no server accepts that token any more.

// secretMode is the mode of files with a token.
const secretMode = 0o600

// maxTokenFileBytes bounds a file with a token or with the path of one.
const maxTokenFileBytes = 4096

// localToken is the token file of a running server and the pointer file with its path.
type localToken struct{ token, pointer string }

// writeLocalToken writes the token of a server to its data directory.
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

// point writes the pointer file for the server's address.
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

// remove removes both files, unless another server has replaced the pointer file in the meantime.
func (t *localToken) remove() {
	if t == nil {
		return
	}
	if to, err := readSmall(t.pointer); err == nil && to == t.token {
		_ = os.Remove(t.pointer) // a leftover is harmless
	}
	_ = os.Remove(t.token) // the token is no longer valid
}

// writeSecret replaces a file by a new one that only its owner may read. A process that has the old file open, or created it
// with other permissions, does not see the new contents.
func writeSecret(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".token-*") // creates with mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // after success it has been renamed
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

// pointerFile returns the pointer file for a server's address in the user's configuration directory.
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

// givenToken returns the token that the user gave, empty if none. The command line takes precedence over the environment, where
// a file takes precedence over a text.
func (g *globals) givenToken() (string, error) {
	file, name := g.TokenFile, "--token-file"
	switch {
	case g.Token != "" && file != "":
		return "", &exitCode{exitUsage, errors.New("--token and --token-file cannot both be given")}
	case g.Token != "":
		return g.Token, nil
	case g.Env != "" && file == "": // the shell's token is for another server
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

// tokenOf returns the token for the server: the given one, else the token of a server of this user on this machine at the
// address; empty if there is none.
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
	if errors.Is(err, fs.ErrNotExist) { // the server was killed and its data deleted
		return "", nil
	}
	if err != nil {
		return "", &exitCode{exitDenied, fmt.Errorf("the token of the server at %s: %w", g.Server, err)}
	}
	return t, nil
}
