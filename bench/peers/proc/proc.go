//go:build linux

// Package proc starts servers and stops them again by their process id.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// stopWithin is how long a server has to end by itself before it is killed: PostgreSQL writes a checkpoint first.
const stopWithin = 20 * time.Second

// tailBytes is how much of a server's log an error quotes.
const tailBytes = 2000

// Server is a process that this program has started.
type Server struct {
	name, log string
	cmd       *exec.Cmd
	quit      syscall.Signal
	ended     chan struct{}
}

// Spec describes a server.
type Spec struct {
	Name string
	Args []string // the program and its arguments
	Dir  string   // its working directory, where its log and its temporary files go, too
	Env  []string // added to the environment of this process
	User *syscall.Credential
	Quit syscall.Signal // ends it in an orderly way
}

// Start starts a server. Its process group is its own, so that Ctrl-C reaches only this program, which stops the server.
// If this process dies, the kernel sends Quit to the server.
func Start(s Spec) (*Server, error) {
	log := filepath.Join(s.Dir, s.Name+".log")
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // the server has its own descriptor
	cmd := exec.Command(s.Args[0], s.Args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, f, f
	cmd.Env = append(append(os.Environ(), "TMPDIR="+s.Dir), s.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: s.Quit, Credential: s.User}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	server := &Server{name: s.Name, log: log, cmd: cmd, quit: s.Quit, ended: make(chan struct{})}
	go func() {
		defer close(server.ended)
		_ = cmd.Wait() // how it ended is in its log
	}()
	return server, nil
}

// Ended is closed when the server has ended.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Log returns the end of the server's log, for an error.
func (s *Server) Log() string {
	b, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(b[max(0, len(b)-tailBytes):]))
}

// Stop ends the server and blocks until it has ended. It kills a server that does not end within 20 s, and says so.
func (s *Server) Stop() error {
	select {
	case <-s.ended:
		return fmt.Errorf("%s had ended before it was stopped: %s", s.name, s.Log())
	default:
	}
	err := s.cmd.Process.Signal(s.quit)
	select {
	case <-s.ended:
		return nil
	case <-time.After(stopWithin):
	}
	err = errors.Join(err, s.cmd.Process.Kill())
	<-s.ended
	return errors.Join(fmt.Errorf("%s did not end within %v and was killed", s.name, stopWithin), err)
}

// Port returns a TCP port of 127.0.0.1 that nobody listened on a moment ago.
func Port() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
