//go:build linux

package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/wfhost/wfhost/bench/peers/proc"
)

// postgres is a PostgreSQL server of its own on 127.0.0.1. All settings are the defaults of initdb, which are durable:
// fsync, synchronous_commit and full_page_writes are on.
type postgres struct {
	server   *proc.Server
	bin      string
	port     int
	password string
	user     *syscall.Credential
}

// startsWithin is how long a server may take until it answers.
const startsWithin = 60 * time.Second

// database is the name of the database that DBOS uses.
const database = "bench_peers"

func checkPostgres(o Options) error {
	missing := func(what string) error {
		return &MissingError{DBOS, what, "apt-get install postgresql, and give the folder of its programs by -postgres DIR, " +
			"for example /usr/lib/postgresql/15/bin"}
	}
	for _, name := range []string{"initdb", "postgres", "createdb"} {
		if info, err := os.Stat(filepath.Join(o.PostgresBin, name)); err != nil || info.IsDir() {
			return missing(fmt.Sprintf("the program %s is not in the folder %q", name, o.PostgresBin))
		}
	}
	if _, err := postgresUser(); err != nil {
		return missing(err.Error())
	}
	return nil
}

// postgresUser returns the user that the server runs as: postgres if this process is root, which PostgreSQL refuses, and
// nil, this process's own, otherwise.
func postgresUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no user postgres: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err, err2)
}

// startPostgres makes a new cluster with an empty database and starts its server.
func startPostgres(ctx context.Context, o Options) (*postgres, error) {
	u, err := postgresUser()
	if err != nil {
		return nil, err
	}
	p := &postgres{bin: o.PostgresBin, password: rand.Text(), user: u}
	dir := filepath.Join(o.Dir, "postgres")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte(p.password), 0o600); err != nil {
		return nil, err
	}
	if u != nil {
		if err := errors.Join(os.Chown(dir, int(u.Uid), int(u.Gid)), os.Chown(secret, int(u.Uid), int(u.Gid))); err != nil {
			return nil, err
		}
	}
	cluster := filepath.Join(dir, "cluster")
	if err := p.command(ctx, "initdb", "-D", cluster, "-U", "postgres", "-A", "scram-sha-256", "--pwfile", secret); err != nil {
		return nil, fmt.Errorf("%w\nThe user postgres must be able to enter the folder %s and those above it: choose another by -dir",
			err, o.Dir)
	}
	p.port, err = proc.Port()
	if err != nil {
		return nil, err
	}
	p.server, err = proc.Start(proc.Spec{Name: "postgres", Dir: dir, User: u, Quit: syscall.SIGINT, // a fast shutdown
		Args: []string{filepath.Join(p.bin, "postgres"), "-D", cluster, "-p", strconv.Itoa(p.port), "-h", "127.0.0.1",
			"-c", "unix_socket_directories="}})
	if err != nil {
		return nil, err
	}
	if err := p.createDatabase(ctx); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// createDatabase blocks until the server answers, and creates the database.
func (p *postgres) createDatabase(ctx context.Context) error {
	return retry(ctx, p.server, func() error {
		return p.command(ctx, "createdb", "-h", "127.0.0.1", "-p", strconv.Itoa(p.port), "-U", "postgres", "-w", database)
	})
}

// command runs one of PostgreSQL's programs.
func (p *postgres) command(ctx context.Context, name string, args ...string) error {
	c := exec.CommandContext(ctx, filepath.Join(p.bin, name), args...)
	c.Dir = "/" // any folder that its user may enter
	c.Env = append(os.Environ(), "PGPASSWORD="+p.password)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: p.user, Pdeathsig: syscall.SIGKILL}
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// url is what DBOS connects to.
func (p *postgres) url() string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", p.password), Path: database, RawQuery: "sslmode=disable",
		Host: fmt.Sprintf("127.0.0.1:%d", p.port)}
	return u.String()
}

func (p *postgres) stop() error { return p.server.Stop() }

// retry calls f until it returns nil, for a minute at most and as long as the server runs.
func retry(ctx context.Context, server *proc.Server, f func() error) error {
	const each = 100 * time.Millisecond
	for begun := time.Now(); ; {
		err := f()
		if err == nil {
			return nil
		}
		if time.Since(begun) > startsWithin {
			return fmt.Errorf("the server did not answer within %v: %w\n%s", startsWithin, err, server.Log())
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-server.Ended():
			return fmt.Errorf("the server ended: %s", server.Log())
		case <-time.After(each):
		}
	}
}
