package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// slowStep is how long the steps of TestDrain take.
const slowStep = 3 * time.Second

// slowServer is a slow service that counts its requests.
func slowServer(t *testing.T) (url string, began chan struct{}, count *atomic.Int64) {
	began, count = make(chan struct{}, 9), new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		count.Add(1)
		began <- struct{}{}
		<-time.After(slowStep)
		_, _ = io.WriteString(w, "answered")
	}))
	t.Cleanup(s.Close)
	return s.URL, began, count
}

// process is a wfhost process that is stopped by signals.
type process struct {
	*exec.Cmd
	t     *testing.T
	lines *bufio.Reader
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(binary(t), args...), t: t}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Stderr, p.lines = os.Stderr, bufio.NewReader(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() }) // it may have ended
	return p
}

// end waits until the process exits and returns its exit code.
func (p *process) end() int {
	p.t.Helper()
	err := p.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return p.ProcessState.ExitCode()
}

func serveProcess(t *testing.T, data, address string, args ...string) *process {
	t.Helper()
	p := startProcess(t, append([]string{"serve", "--data", data, "--listen", address}, args...)...)
	if line, err := p.lines.ReadString('\n'); err != nil || !strings.Contains(line, "wfhost serves") {
		t.Fatalf("the server does not start: %q %v", line, err)
	}
	return p
}

func commanded(t *testing.T, address string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary(t), append([]string{"--server", "http://" + address}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// status makes a request and returns the status and the Retry-After header of the answer.
func status(t *testing.T, method, url string) (code int, retryAfter string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	authorize(t, req)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	return res.StatusCode, res.Header.Get("Retry-After")
}

// TestDrain stops a server while steps are in progress that must be attempted at most once. They finish and are not
// repeated. In the meantime the server answers reads and refuses changes.
func TestDrain(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	url, began, count := slowServer(t)
	data, address := t.TempDir(), freeAddress(t)
	p := serveProcess(t, data, address)
	commanded(t, address, "upload", "testdata/drained", "--allow-step", "http", "--allow-http", url)
	commanded(t, address, "start", "handler", "--id", "h", "--input", fmt.Sprintf("%q", url))
	commanded(t, address, "start", "body", "--id", "b", "--input", fmt.Sprint(int64(slowStep)))
	<-began
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	base := "http://" + address
	for code := 0; code != http.StatusServiceUnavailable; { // the signal takes a moment
		code, _ = status(t, "GET", base+"/readyz")
	}
	for path, want := range map[string]int{"GET /v1/runs/h": 200, "GET /healthz": 200, "GET /v1/runs/h/result?wait=1ms": 202,
		"POST /v1/workflows/body/runs": 503, "POST /v1/runs/h/cancel": 503, "DELETE /v1/runs/h": 503, "POST /v1/hooks/x": 503} {
		method, path, _ := strings.Cut(path, " ")
		code, retryAfter := status(t, method, base+path)
		if code != want || (code == 503) != (retryAfter != "") {
			t.Errorf("%s %s: %d, Retry-After %q", method, path, code, retryAfter)
		}
	}
	if code := p.end(); code != 0 {
		t.Fatalf("exit status %d", code)
	}
	p = serveProcess(t, data, address)
	for id, want := range map[string]string{"h": `"answered"`, "b": `"slept"`} {
		if got := commanded(t, address, "result", id, "--wait"); got != want {
			t.Errorf("%s: %s", id, got)
		}
		if j := commanded(t, address, "journal", id); strings.Contains(j, "attempt 2") || strings.Count(j, "step_result") != 1 {
			t.Errorf("the step was made again:\n%s", j)
		}
	}
	if n := count.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
	_ = p.Process.Signal(syscall.SIGTERM)
	if code := p.end(); code != 0 {
		t.Fatalf("exit status %d", code)
	}
}

// TestSecondSignal stops a server at once.
func TestSecondSignal(t *testing.T) {
	url, began, _ := slowServer(t)
	address := freeAddress(t)
	p := serveProcess(t, t.TempDir(), address, "--drain", "1h")
	commanded(t, address, "upload", "testdata/drained", "--allow-step", "http", "--allow-http", url)
	commanded(t, address, "start", "handler", "--input", fmt.Sprintf("%q", url))
	<-began
	at := time.Now()
	for range 2 {
		_ = p.Process.Signal(os.Interrupt)
		<-time.After(100 * time.Millisecond) // else the kernel makes one of them
	}
	if code := p.end(); code != exitInterrupted || time.Since(at) > slowStep/2 {
		t.Fatalf("exit status %d after %v", code, time.Since(at))
	}
}

// TestDrainOfRun interrupts wfhost run in the middle of a step, and continues the run from the same data.
func TestDrainOfRun(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	url, began, count := slowServer(t)
	args := []string{"run", "testdata/drained", "--workflow", "handler", "--id", "h", "--data", filepath.Join(t.TempDir(), "data"),
		"--input", fmt.Sprintf("%q", url), "--allow-http", url, "-q"}
	p := startProcess(t, args...)
	<-began
	_ = p.Process.Signal(syscall.SIGTERM)
	if code := p.end(); code != exitInterrupted {
		t.Fatalf("exit status %d", code)
	}
	out, err := exec.Command(binary(t), args...).Output()
	if err != nil || strings.TrimSpace(string(out)) != `"answered"` || count.Load() != 1 {
		t.Fatalf("%s %v, %d requests", out, err, count.Load())
	}
}
