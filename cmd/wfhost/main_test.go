package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/wfhost/wfhost/host"
)

func TestMain(m *testing.M) {
	host.CompilerMain()
	if filepath.Base(os.Args[0]) != "wfhost" { // not a command of a script
		dir, err := os.MkdirTemp("", "wfhost-config-")
		if err != nil {
			panic(err)
		}
		_ = os.Setenv("XDG_CONFIG_HOME", dir) // where servers say where their tokens are
		if cache := compiledModules(nil); cache != "" {
			_ = os.Setenv("WFHOST_CACHE_DIR", cache) // so that each module is compiled once
		}
	}
	testscript.Main(m, map[string]func(){"wfhost": timed})
}

// startServer starts `wfhost serve` as a separate process, which is killed at the end of the test.
func startServer(t testing.TB, exe, data, listen string, flags ...string) (stop func(kill bool)) {
	t.Helper()
	cmd := exec.Command(exe, append([]string{"serve", "--data", data, "--listen", listen, "--drain", "2s"}, flags...)...)
	cmd.Env = append(os.Environ(), "TESTSCRIPT_COMMAND=")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, "wfhost serves") {
		t.Fatalf("the server does not start: %q %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return func(kill bool) {
		if kill {
			_ = cmd.Process.Kill() // as kill -9 does
		} else {
			_ = cmd.Process.Signal(os.Interrupt)
		}
		_ = cmd.Wait() // it was told to end
	}
}

// authorize adds the token and the content type to a request, so that the server accepts it.
func authorize(t testing.TB, req *http.Request) {
	t.Helper()
	token, err := (&globals{Server: "http://" + req.URL.Host}).tokenOf()
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	if req.Method == http.MethodPut {
		req.Header.Set("Content-Type", "application/wasm")
	}
}

// freeAddress returns a loopback address with a free port.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

var built struct {
	exe string
	err error
}

// binary builds the command once.
func binary(t testing.TB) string {
	t.Helper()
	if built.exe == "" {
		dir, err := os.MkdirTemp("", "wfhost-test-")
		if err != nil {
			t.Fatal(err)
		}
		built.exe = filepath.Join(dir, "wfhost")
		build := exec.Command("go", "build", "-o", built.exe, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // like the release; with cgo it takes more memory
		if out, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w\n%s", err, out)
		}
	}
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.exe
}

// TestScripts runs the scripts in testdata/script. Each gets its own server and the compiled modules that it needs.
func TestScripts(t *testing.T) {
	exe := binary(t)
	modules := t.TempDir()
	for name, dir := range map[string]string{"s01": "../../host/testdata/s01", "v2": "../../host/testdata/v2", "drip": "../../examples/drip",
		"primitives": "../../host/testdata/primitives", "bench": "../../examples/bench", "approval": "../../examples/approval", "updates": "../../host/testdata/updates"} {
		cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", filepath.Join(modules, name+".wasm"), ".")
		cmd.Dir = dir
		cmd.Env = append(cmd.Environ(), "GOOS=wasip1", "GOARCH=wasm")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			address, data := freeAddress(t), filepath.Join(e.WorkDir, "server")
			if err := os.Mkdir(data, 0o700); err != nil {
				return err
			}
			stop := startServer(t, exe, data, address)
			e.Defer(func() { stop(false) })
			home, _ := os.UserHomeDir()
			cache, _ := exec.Command("go", "env", "GOCACHE").Output()
			path, _ := exec.Command("go", "env", "GOMODCACHE").Output()
			e.Setenv("WFHOST_SERVER", "http://"+address)
			e.Setenv("TZ", "UTC")
			e.Setenv("MODULES", modules)
			e.Setenv("ROOT", root)
			e.Setenv("EXE", exe)
			e.Setenv("HOME", home)
			e.Setenv("XDG_CONFIG_HOME", os.Getenv("XDG_CONFIG_HOME"))
			if cache := os.Getenv("WFHOST_CACHE_DIR"); cache != "" {
				e.Setenv("WFHOST_CACHE_DIR", cache)
			}
			e.Setenv("GOCACHE", strings.TrimSpace(string(cache)))
			e.Setenv("GOMODCACHE", strings.TrimSpace(string(path)))
			return nil
		},
	})
}

// TestSleepThroughAKill kills a real server while a run sleeps. The run wakes at its original deadline, or at once if
// the host was down past it. Each effect happens once.
func TestSleepThroughAKill(t *testing.T) {
	exe := binary(t)
	data, address := t.TempDir(), freeAddress(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, exe, append([]string{"--server", "http://" + address}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	stop := startServer(t, exe, data, address)
	client("upload", "../../host/testdata/s01")
	client("start", "s01", "--id", "before", "--input", "4000")
	client("start", "s01", "--id", "past", "--input", "600")
	begun := time.Now()
	for !strings.Contains(client("show", "past"), "sleeping") || !strings.Contains(client("show", "before"), "sleeping") {
		if time.Since(begun) > 10*time.Second {
			t.Fatal("the runs do not sleep")
		}
	}
	stop(true)
	<-time.After(time.Second)
	stop = startServer(t, exe, data, address)
	defer func() { stop(false) }()
	up := time.Now()
	if got := client("result", "past", "--wait"); got != `"ab"` {
		t.Fatal(got)
	}
	if late := time.Since(up); late > time.Second {
		t.Errorf("the run whose deadline had passed finished %v after the start", late)
	}
	if s := client("show", "before"); !strings.Contains(s, "sleeping") && time.Since(begun) < 3*time.Second {
		t.Errorf("the other run does not sleep any more:\n%s", s)
	}
	if got := client("result", "before", "--wait"); got != `"ab"` {
		t.Fatal(got)
	}
	j := client("journal", "before")
	if strings.Count(j, "step_result") != 2 || strings.Count(j, "timer") != 1 {
		t.Errorf("journal\n%s", j)
	}
}

func TestHTTPErrors(t *testing.T) {
	exe := binary(t)
	address := freeAddress(t)
	stop := startServer(t, exe, t.TempDir(), address)
	defer func() { stop(false) }()
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"GET", "/v1/runs/nope", "", 404, "not_found"},
		{"GET", "/v1/workflows/nope", "", 404, "not_found"},
		{"POST", "/v1/workflows/nope/runs", "{}", 404, "not_found"},
		{"POST", "/v1/workflows/nope/runs", "{", 400, "invalid"},
		{"POST", "/v1/workflows/nope/runs", `{"x":1}`, 400, "invalid"},
		{"POST", "/v1/workflows/nope/runs", `{"id":"a b"}`, 400, "invalid"},
		{"POST", "/v1/runs/nope/cancel", "", 404, "not_found"},
		{"PUT", "/v1/workflows/x/versions", "not wasm", 400, "rejected"},
		{"GET", "/v1/runs?status=nope", "", 400, "invalid"},
		{"GET", "/v1/runs?limit=0", "", 400, "invalid"},
		{"GET", "/v1/timers?within=5", "", 400, "invalid"},
		{"GET", "/v1/runs/x/journal?from=x", "", 422, `"code":"invalid"`},
		{"GET", "/v1/nothing", "", 404, `there is nothing at \"/v1/nothing\"`},
		{"PUT", "/v1/runs", "", 405, `"code":"method_not_allowed"`},
		{"GET", "/healthz", "", 200, "ok"},
		{"GET", "/readyz", "", 200, `{"status":"ready"}`},
		{"GET", "/openapi.json", "", 200, `"/v1/runs/{id}/wake"`},
	} {
		req, err := http.NewRequestWithContext(context.Background(), c.method, "http://"+address+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		authorize(t, req)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != c.status || !strings.Contains(string(b), c.code) {
			t.Errorf("%s %s: %d %s", c.method, c.path, res.StatusCode, b)
		}
	}
}
