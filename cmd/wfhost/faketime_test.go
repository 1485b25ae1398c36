package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// fakeTime is an environment variable with the instant at which the command's fake clock starts. The released command
// does not read it: only timed does, since main has no parameter for a clock.
const fakeTime = "WFHOST_TEST_TIME"

// timed runs the command in scripts: with a fake clock if the script sets fakeTime, else as main does.
func timed() {
	at := os.Getenv(fakeTime)
	if at == "" {
		main()
		return
	}
	now, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c := hosttest.NewClock(now)
	os.Exit(execute(ctx, os.Args[1:], stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr, clock: c,
		opened: func(h *host.Host) { go moved(ctx, h, c, os.Stdin, os.Stdout) }}))
}

// moved reads durations, one per line, advances the server's clock by each, and prints the new time.
func moved(ctx context.Context, h *host.Host, c *hosttest.Clock, in io.Reader, out io.Writer) {
	for s := bufio.NewScanner(in); s.Scan(); {
		d, err := time.ParseDuration(s.Text())
		for err == nil && h.Stats().NextSweep.IsZero() { // it does not run yet
			err = ctx.Err()
		}
		if err == nil {
			err = hosttest.Advance(ctx, h, c, d)
		}
		if err != nil {
			_, _ = fmt.Fprintln(out, "error:", err)
			return
		}
		_, _ = fmt.Fprintln(out, c.Now().UTC().Format(time.RFC3339Nano))
	}
}

// installation is what a script with a fake clock operates: one server at a time, and the service that its handler
// calls.
type installation struct {
	address string
	now     time.Time
	service *service

	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
	log bytes.Buffer

	books books
	kept  map[string]books
}

// books counts started and deleted runs: in total over all servers, by their metrics, and for the running server.
type books struct{ started, deleted, ofStarted, ofDeleted int }

// setup sets the time at which a script starts.
func (x *installation) setup(e *testscript.Env) {
	x.service = newService()
	e.Defer(x.service.Close)
	e.Defer(func() {
		if x.cmd != nil {
			_ = x.cmd.Process.Kill()
			_ = x.cmd.Wait() // it was killed
		}
	})
	e.Setenv("WFHOST_SERVER", "http://"+x.address)
	e.Setenv("SERVICE", x.service.URL)
	e.Setenv("SECRET", strings.Repeat("s", 32))
	e.Setenv(fakeTime, x.now.Format(time.RFC3339Nano))
}

func (x *installation) commands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	return map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"serve": x.serve, "clock": x.clock, "shutdown": x.stop, "crash": x.crash, "service": x.answer, "books": x.keepBooks}
}

// serve starts a server: serve FOLDER [FLAG ...].
func (x *installation) serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 || x.cmd != nil {
		ts.Fatalf("usage: serve FOLDER [FLAG ...], when none runs")
	}
	x.log.Reset()
	cmd := exec.Command("wfhost", append([]string{"serve", "--data", ts.MkAbs(args[0]), "--listen", x.address}, args[1:]...)...)
	cmd.Env = append(os.Environ(), fakeTime+"="+ts.Getenv(fakeTime), "TZ=UTC", "SECRET="+ts.Getenv("SECRET"))
	cmd.Stderr = &x.log
	in, err := cmd.StdinPipe()
	ts.Check(err)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	x.cmd, x.in, x.out = cmd, in, bufio.NewReader(out)
	line, err := x.out.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "wfhost serves") {
		ts.Fatalf("the server does not start: %q %v\n%s", line, err, x.log.String())
	}
	x.clock(ts, false, []string{"+0s"})
}

// clock advances the clock: clock +DURATION. The server runs in the meantime, from deadline to deadline.
func (x *installation) clock(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || !strings.HasPrefix(args[0], "+") {
		ts.Fatalf("usage: clock +DURATION, such as +30d")
	}
	ms, err := abi.ParseDuration(args[0][1:])
	ts.Check(err)
	d := abi.Duration(ms)
	if x.cmd != nil {
		_, err := fmt.Fprintln(x.in, d)
		ts.Check(err)
		line, err := x.out.ReadString('\n')
		if got, perr := time.Parse(time.RFC3339Nano, strings.TrimSpace(line)); err != nil || perr != nil || !got.Equal(x.now.Add(d)) {
			ts.Fatalf("the server's clock stands at %q (%v), and should at %v\n%s", line, err, x.now.Add(d), x.log.String())
		}
	}
	x.now = x.now.Add(d)
	ts.Setenv(fakeTime, x.now.Format(time.RFC3339Nano))
	_, _ = fmt.Fprintln(ts.Stdout(), x.now.Format(time.RFC3339Nano))
}

// stop ends the server and prints its log. "shutdown" stops it as a supervisor would, "crash" kills it.
func (x *installation) stop(ts *testscript.TestScript, neg bool, _ []string) {
	if err := x.end(ts, syscall.SIGTERM); neg || err != nil {
		ts.Fatalf("the server ends with %v\n%s", err, x.log.String())
	}
}

func (x *installation) crash(ts *testscript.TestScript, neg bool, _ []string) {
	if err := x.end(ts, syscall.SIGKILL); neg || err == nil {
		ts.Fatalf("the server was not killed\n%s", x.log.String())
	}
}

func (x *installation) end(ts *testscript.TestScript, sig os.Signal) error {
	if x.cmd == nil {
		ts.Fatalf("no server runs")
	}
	x.look(ts)
	x.books = books{started: x.books.started + x.books.ofStarted, deleted: x.books.deleted + x.books.ofDeleted}
	ts.Check(x.cmd.Process.Signal(sig))
	_, err := io.Copy(io.Discard, x.out)
	err = errors.Join(err, x.cmd.Wait())
	x.cmd = nil
	_, _ = fmt.Fprint(ts.Stdout(), x.log.String())
	return err
}

// look reads from the metrics how many runs the server has started and deleted since it began, and returns the number
// of existing runs.
func (x *installation) look(ts *testscript.TestScript) (has int) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+x.address+"/metrics", nil)
	ts.Check(err)
	token, err := (&globals{Server: "http://" + x.address}).tokenOf()
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		ts.Fatalf("/metrics: %s", res.Status)
	}
	x.books.ofStarted, x.books.ofDeleted = 0, 0
	for s := bufio.NewScanner(res.Body); s.Scan(); {
		series, value, _ := strings.Cut(s.Text(), "} ")
		name, _, _ := strings.Cut(series, "{")
		n, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "wfhost_run_starts_total":
			x.books.ofStarted += int(n)
		case "wfhost_run_deletes_total":
			x.books.ofDeleted += int(n)
		case "wfhost_runs":
			has += int(n)
		}
	}
	return has
}

// keepBooks compares the number of started runs with the deleted and the existing ones; call it as "books" while a
// server runs. "books keep NAME" saves the counts at a backup. "books back NAME" returns to them after its restore.
func (x *installation) keepBooks(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 2 && args[0] == "back" && x.cmd == nil {
		x.books = x.kept[args[1]]
		return
	}
	if neg || x.cmd == nil || len(args) != 0 && (len(args) != 2 || args[0] != "keep") {
		ts.Fatalf("usage: books [keep NAME], or without a server: books back NAME")
	}
	has := x.look(ts)
	b := books{started: x.books.started + x.books.ofStarted, deleted: x.books.deleted + x.books.ofDeleted}
	if b.started != b.deleted+has {
		ts.Fatalf("%d runs were started, %d were deleted, and there are %d", b.started, b.deleted, has)
	}
	if len(args) == 2 {
		x.kept[args[1]] = b
	}
	_, _ = fmt.Fprintf(ts.Stdout(), "%d runs were started, %d were deleted, %d are there\n", b.started, b.deleted, has)
}

// service is the service that the handler calls. It counts each idempotency key once.
type service struct {
	*httptest.Server
	mu     sync.Mutex
	refuse string // why it does nothing; empty: it does
	keys   map[string]int
}

func newService() *service {
	s := &service{keys: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.refuse != "" {
			http.Error(w, s.refuse, http.StatusServiceUnavailable)
			return
		}
		s.keys[r.Header.Get("Idempotency-Key")]++
		_, _ = fmt.Fprintf(w, `{"receipt":%d}`, len(s.keys))
	}))
	return s
}

// answer controls the service: "service down WHY" and "service up". "service did N" compares the number of
// operations.
func (x *installation) answer(ts *testscript.TestScript, neg bool, args []string) {
	x.service.mu.Lock()
	defer x.service.mu.Unlock()
	switch {
	case !neg && len(args) == 2 && args[0] == "down":
		x.service.refuse = args[1]
	case !neg && len(args) == 1 && args[0] == "up":
		x.service.refuse = ""
	case !neg && len(args) == 2 && args[0] == "did":
		if n := strconv.Itoa(len(x.service.keys)); n != args[1] {
			ts.Fatalf("the service did something %s times, want %s", n, args[1])
		}
	default:
		ts.Fatalf("usage: service down WHY | up | did N")
	}
}

// newInstallation returns an installation that begins on a Monday.
func newInstallation(t testing.TB) *installation {
	return &installation{address: freeAddress(t), now: hosttest.Epoch, kept: map[string]books{}}
}
