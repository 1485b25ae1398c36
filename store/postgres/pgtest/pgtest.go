// Package pgtest starts a PostgreSQL server for tests: a new one in a folder of its own, on a free port of the loopback
// interface, under an ordinary user, since the server refuses root. Tests are skipped where PostgreSQL is not installed.
package pgtest

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/wfhost/wfhost/store/postgres"
)

// Server is a running server.
type Server struct {
	dir  string
	port int
	bin  string
	set  []string // settings, as "-c name=value"
	// ready is what the server logs when it takes connections.
	ready string
	as    *syscall.Credential

	process *exec.Cmd
	ended   chan struct{}
	mu      sync.Mutex
	made    int // databases
}

// Missing says what is not installed, "" if tests can run.
func Missing() string {
	if folder() == "" {
		return "PostgreSQL is not installed (apt-get install postgresql): SKIPPED"
	}
	return ""
}

// folder returns the folder of the newest installed server, "" if there is none.
func folder() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is valid
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			found = append(found, real)
		}
	}
	found = slices.DeleteFunc(found, func(path string) bool {
		_, err := os.Stat(filepath.Join(filepath.Dir(path), "postgres"))
		return err != nil
	})
	if len(found) == 0 {
		return ""
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1])
}

// Durable are the settings of a server whose commits survive a crash of the machine. Without it, tests turn fsync off.
var Durable = []string{"fsync=on", "full_page_writes=on", "synchronous_commit=on"}

// fast are settings for databases that only tests use.
var fast = []string{"fsync=off", "full_page_writes=off", "max_connections=200", "shared_buffers=64MB", "autovacuum_naptime=10s"}

// New starts a server, with further settings such as "fsync=on", and stops it at the end of the test.
func New(t testing.TB, settings ...string) *Server {
	t.Helper()
	if missing := Missing(); missing != "" {
		t.Skip(missing)
	}
	s, err := start(settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func start(settings []string) (*Server, error) {
	dir, err := os.MkdirTemp("", "wfhost-pg")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: folder(), ready: "ready to accept connections"}
	for _, set := range append(slices.Clone(fast), settings...) {
		s.set = append(s.set, "-c", set)
	}
	if os.Getuid() == 0 {
		if s.as, err = ordinary(); err != nil {
			return nil, err
		}
	}
	if err := s.own(dir); err != nil {
		return nil, err
	}
	init := s.command(filepath.Join(s.bin, "initdb"), "-D", filepath.Join(s.dir, "data"), "-U", "postgres", "-A", "trust",
		"-E", "UTF8", "--locale", "C", "--no-sync")
	if out, err := init.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	if err := s.Start(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) own(dir string) error {
	if s.as == nil {
		return nil
	}
	return os.Chown(dir, int(s.as.Uid), int(s.as.Gid))
}

// Standby starts a server with the settings of s that follows it, until Promote. With wait, commits of s wait for it. The caller
// stops it.
func (s *Server) Standby(t testing.TB, wait bool) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "wfhost-pg")
	if err != nil {
		t.Fatal(err)
	}
	x := &Server{dir: dir, bin: s.bin, set: s.set, as: s.as, ready: "ready to accept read-only connections"}
	err = x.own(dir)
	if err == nil {
		x.port, err = freePort()
	}
	if err != nil {
		t.Fatal(err)
	}
	from := fmt.Sprintf("host=127.0.0.1 port=%d user=postgres application_name=%s", s.port, standby)
	copied := x.command(filepath.Join(x.bin, "pg_basebackup"), "-d", from, "-D", filepath.Join(dir, "data"), "-R", "-X", "stream",
		"-c", "fast", "--no-sync")
	if out, err := copied.CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v: %s", err, out)
	}
	if err := x.Start(); err != nil {
		t.Fatal(err)
	}
	if wait {
		s.Exec(t, "postgres", "alter system set synchronous_standby_names = '"+standby+"'")
		s.Exec(t, "postgres", "select pg_reload_conf()")
	}
	return x
}

// standby is the name of a standby at its primary.
const standby = "wfhost_standby"

// Detach makes a standby lose whatever its primary commits from now on.
func (s *Server) Detach(t testing.TB) {
	t.Helper()
	s.Exec(t, "postgres", "alter system set primary_conninfo = ''")
	s.Exec(t, "postgres", "select pg_reload_conf()")
}

// Promote makes a standby the primary.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.Exec(t, "postgres", "select pg_promote(true, 60)")
	s.ready = "ready to accept connections"
	s.Exec(t, "postgres", "alter system set synchronous_standby_names = ''") // what its primary had
	s.Exec(t, "postgres", "select pg_reload_conf()")
}

// ordinary returns the user as which a server of root runs.
func ordinary() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.Atoi(u.Uid)
		gid, err2 := strconv.Atoi(u.Gid)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("there is no user postgres or nobody, and the server refuses root")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil //nolint:forcetypeassert // of a TCP listener
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = s.dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	return c
}

// Start starts the server again after Kill, and waits until it takes connections.
func (s *Server) Start() error {
	args := append([]string{"-D", filepath.Join(s.dir, "data"), "-p", strconv.Itoa(s.port), "-k", s.dir,
		"-c", "listen_addresses=127.0.0.1"}, s.set...)
	c := s.command(filepath.Join(s.bin, "postgres"), args...)
	dieWithParent(c.SysProcAttr)
	out, err := c.StderrPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	s.process, s.ended = c, make(chan struct{})
	ready := make(chan struct{})
	var log strings.Builder // until it is ready
	go func(ended chan struct{}) {
		defer close(ended)
		up := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if !up {
				log.WriteString(lines.Text() + "\n")
			}
			if !up && strings.Contains(lines.Text(), s.ready) {
				up = true
				close(ready)
			}
		}
		_ = c.Wait() // it was killed
	}(s.ended)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	select {
	case <-ready:
		return nil
	case <-s.ended:
		return fmt.Errorf("the server ended: %s", log.String())
	case <-ctx.Done():
		return fmt.Errorf("the server is not ready after %v", startTimeout)
	}
}

// startTimeout bounds how long a server may take to start, recovery included.
const startTimeout = time.Minute

// Kill ends the server and all of its processes at once, as a power cut would, and waits for that. Start starts it again.
func (s *Server) Kill() {
	if s.process != nil {
		_ = syscall.Kill(-s.process.Process.Pid, syscall.SIGKILL) // the group has its backends, too
		<-s.ended
	}
}

// Save copies the data of the server, for Restore. The server is started again.
func (s *Server) Save() error {
	s.Kill()
	if out, err := s.command("cp", "-a", filepath.Join(s.dir, "data"), filepath.Join(s.dir, "saved")).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	return s.Start()
}

// Restore starts the server with the data that Save has copied, as from a backup: with a new timeline. New must have set
// restore_command.
func (s *Server) Restore() error {
	s.Kill()
	data := filepath.Join(s.dir, "data")
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(s.dir, "saved"), data); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(data, "recovery.signal"), nil, 0o644); err != nil {
		return err
	}
	return s.Start()
}

// Stop ends the server and removes its data.
func (s *Server) Stop() {
	s.Kill()
	_ = os.RemoveAll(s.dir) // of a test
}

// Port is the port of the server on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// URL returns the address of a database.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// Exec runs SQL in a database.
func (s *Server) Exec(t testing.TB, database, sql string, args ...any) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	if _, err := c.Exec(ctx, sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

const template = "wfhost_template"

// Database creates an empty store in a database of its own, and returns its name.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == 0 {
		s.Exec(t, "postgres", "create database "+template)
		p, err := postgres.Open(context.Background(), s.URL(template), postgres.Options{Migrate: true, Unsafe: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s.made++
	name := fmt.Sprint("test", s.made)
	s.Exec(t, "postgres", "create database "+name+" template "+template)
	return name
}

// Drop drops a database.
func (s *Server) Drop(t testing.TB, name string) {
	t.Helper()
	s.Exec(t, "postgres", "drop database if exists "+name+" with (force)")
}

// shared is the server of a test binary.
var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// M runs the tests of a binary for TestMain, and then stops the server that Shared has started.
type M struct{ *testing.M }

// Run returns the exit code.
func (m M) Run() int {
	defer func() {
		if shared.server != nil {
			shared.server.Stop()
		}
	}()
	return m.M.Run()
}

// Shared returns the server that the tests of a binary share. Its settings lose data in a crash. TestMain must run M.
func Shared(t testing.TB) *Server {
	t.Helper()
	if missing := Missing(); missing != "" {
		t.Skip(missing)
	}
	shared.once.Do(func() { shared.server, shared.err = start(nil) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// Fresh returns the address of an empty store in a database of its own, which is dropped at the end of the test.
func Fresh(t testing.TB) string {
	t.Helper()
	s := Shared(t)
	name := s.Database(t)
	t.Cleanup(func() { s.Drop(t, name) })
	return s.URL(name)
}

// Dump returns everything in a database: as SQL, and what its columns of bytes hold.
func Dump(t testing.TB, url string) []byte {
	t.Helper()
	text, err := exec.Command(filepath.Join(folder(), "pg_dump"), "--dbname", url).Output()
	if err != nil {
		t.Fatal("pg_dump: ", err)
	}
	for _, digits := range bytea.FindAll(text, -1) {
		b, err := hex.DecodeString(string(digits[len(`\\x`):]))
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, b...), '\n')
	}
	return text
}

// bytea matches a column of bytes in the output of pg_dump.
var bytea = regexp.MustCompile(`\\\\x[0-9a-f]+`)
