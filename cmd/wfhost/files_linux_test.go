package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fewFiles is a server with a low limit of open files.
type fewFiles struct {
	*exec.Cmd
	t       *testing.T
	address string
	errors  bytes.Buffer // its standard error; read after its end
}

// serveLimited starts a server with a limit of open files. The server is killed at the end of the test.
func serveLimited(t *testing.T, files int) (s *fewFiles, started bool) {
	t.Helper()
	s = &fewFiles{t: t, address: freeAddress(t)}
	s.Cmd = exec.Command("sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, files), "sh", binary(t), "serve", "--data", t.TempDir(),
		"--listen", s.address, "--drain", "2s")
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.Stderr = &s.errors
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Process.Kill() }) // it may have ended
	line, _ := bufio.NewReader(out).ReadString('\n')
	return s, strings.Contains(line, "wfhost serves")
}

// ends waits until the server exits, and checks that it exits with code 1 and a sentence instead of stack traces.
func (s *fewFiles) ends(says string) {
	s.t.Helper()
	_ = s.Wait() // the exit code says it
	text := s.errors.String()
	if code := s.ProcessState.ExitCode(); code != exitError || !strings.Contains(text, says) {
		s.t.Errorf("the server ends with %d, want %d saying %q:\n%s", code, exitError, says, text)
	}
	if strings.Contains(text, "panic") || strings.Contains(text, "goroutine ") {
		s.t.Errorf("it does not end cleanly:\n%s", text)
	}
}

// get makes a request on a new connection, leaves the connection open, and returns the status and the body.
func (s *fewFiles) get(path string) (c net.Conn, status int, body string) {
	s.t.Helper()
	c, err := net.DialTimeout("tcp", s.address, 10*time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() }) // it may have been closed
	deadline := time.Now().Add(time.Minute)
	if err := c.SetDeadline(deadline); err != nil {
		s.t.Fatal(err)
	}
	_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, s.address) // a refused connection may be closed already
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return c, res.StatusCode, string(b)
}

// TestMoreConnectionsThanFiles opens 400 connections to a server that may have 300 files open. The excess connections
// get the answer that the server is busy; existing ones keep working.
func TestMoreConnectionsThanFiles(t *testing.T) {
	const files, clients = 300, 400
	s, ok := serveLimited(t, files)
	if !ok {
		s.ends("")
		t.Fatal("the server does not start")
	}
	commanded(t, s.address, "upload", "../../host/testdata/s01")
	var open []net.Conn
	for i := range clients {
		c, status, body := s.get("/healthz")
		switch {
		case status == http.StatusOK:
			open = append(open, c)
		case status != http.StatusServiceUnavailable || !strings.Contains(body, `"code":"busy"`):
			t.Fatalf("connection %d is answered by %d %s", i, status, body)
		default:
			_ = c.Close() // the server closes it, too
		}
	}
	if want := files - reservedFiles; len(open) > want || len(open) < want-4 { // the upload's may still be open
		t.Errorf("%d connections were accepted, want %d", len(open), want)
	}
	reader := bufio.NewReader(open[0])
	for range 3 { // those that are there are served
		_, _ = fmt.Fprintf(open[0], "GET /readyz HTTP/1.1\r\nHost: %s\r\n\r\n", s.address)
		res, err := http.ReadResponse(reader, nil)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%+v, %v", res, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range open {
		_ = c.Close() // a socket
	}
	commanded(t, s.address, "start", "s01", "--id", "r", "--input", "1")
	commanded(t, s.address, "result", "r", "--wait")
	if err := s.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil {
		t.Errorf("%v\n%s", err, s.errors.String())
	}
}

// TestTooFewFiles starts a server whose limit of open files is too low to work.
func TestTooFewFiles(t *testing.T) {
	s, ok := serveLimited(t, 40)
	if ok {
		t.Fatal("the server starts")
	}
	s.ends("may have 40 files open at a time, and a server needs 128 at least: raise the limit (ulimit -n)")
}

// TestOutOfFiles lowers the limit of open files while the server runs. Its store fails, and the server exits with a
// sentence.
func TestOutOfFiles(t *testing.T) {
	s, ok := serveLimited(t, 300)
	if !ok {
		s.ends("")
		t.Fatal("the server does not start")
	}
	commanded(t, s.address, "upload", "../../host/testdata/vault", "--allow-step", "*")
	ask := func(method, path string, body []byte) (status int, err error) { // by one connection, which stays open
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.address+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		authorize(t, req)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, res.Body)
		return res.StatusCode, errors.Join(err, res.Body.Close())
	}
	if code, err := ask("GET", "/readyz", nil); code != http.StatusOK || err != nil {
		t.Fatal(code, err)
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(s.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(open)), Max: 300}, nil); err != nil {
		t.Fatal(err)
	}
	const enough = 200 // starts with a megabyte each: a few of them fill a table
	input := []byte(`{"input":"` + strings.Repeat("x", 1_000_000) + `"}`)
	for i := 0; ; i++ {
		code, err := ask("POST", "/v1/workflows/opened/runs", input)
		if err != nil {
			break
		}
		if i == enough {
			t.Fatalf("the store has not failed, the last start is answered by %d", code)
		}
	}
	s.ends("too many open files")
}
