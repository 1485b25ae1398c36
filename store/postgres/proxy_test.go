package postgres_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/postgres"
	"github.com/wfhost/wfhost/store/postgres/pgtest"
)

// proxy passes bytes between a client and the server, until it is told to drop what the server answers.
type proxy struct {
	net.Listener
	to   string
	mute atomic.Bool  // nothing is passed on any more
	open sync.Map     // connections of clients
	drop atomic.Int32 // that many answers later, one ends the connection instead of reaching the client
}

func newProxy(t *testing.T, port int) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, to: fmt.Sprint("127.0.0.1:", port)}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

// cut ends all connections of clients; those of the server stay until it notices.
func (p *proxy) cut() {
	p.open.Range(func(c, _ any) bool {
		_ = c.(net.Conn).Close() //nolint:forcetypeassert // it holds nothing else
		return true
	})
}

// url returns an address by way of the proxy.
func (p *proxy) url(of string) string {
	return strings.Replace(of, "@"+p.to, "@"+p.Addr().String(), 1)
}

func (p *proxy) serve(client net.Conn) {
	p.open.Store(client, nil)
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := client.Read(buf)
			if err != nil {
				_ = server.Close()
				return
			}
			if p.mute.Load() {
				continue
			}
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil || p.drop.Load() > 0 && p.drop.Add(-1) == 0 {
			return
		}
		if p.mute.Load() {
			continue
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// TestLostAnswer has a commit be durable whose answer never comes: its outcome is unknown, and the next look tells it.
func TestLostAnswer(t *testing.T) {
	server := pgtest.Shared(t)
	name := server.Database(t)
	p := newProxy(t, server.Port())
	s := open(t, p.url(server.URL(name)))
	run := store.RunKey{ID: "r"}
	owned := acquire(t, s, run.Partition())
	for i := range 5 {
		if err := owned.Commit(ctx, grow(run, store.Seq(2*i), 1, i == 0)); err != nil {
			t.Fatal(err)
		}
		p.drop.Store(1)
		if err := owned.Commit(ctx, grow(run, store.Seq(2*i+1), 1, false)); !errors.Is(err, store.ErrUnknown) {
			t.Fatalf("a commit whose answer is lost: %v", err)
		}
		if st, list, err := s.Run(ctx, run); err != nil || int(st.Length) != 2*i+2 || len(list) != 2*i+2 {
			t.Fatalf("after round %d: length %d, %d entries, %v", i, st.Length, len(list), err)
		}
	}
}

// TestLostAnswerOfACommand repeats Discard and Claim after their answer was lost. The first time was durable, so the sender of the
// command must not get a second reply.
func TestLostAnswerOfACommand(t *testing.T) {
	server := pgtest.Shared(t)
	name := server.Database(t)
	p := newProxy(t, server.Port())
	s := open(t, p.url(server.URL(name)))
	cmd := store.Command{ID: store.CommandID{Seq: 1}, Kind: store.CommandSignal, To: store.RunKey{ID: "r"}}
	id := cmd.To.Partition()
	owned := acquire(t, s, id)
	reply := store.Command{ID: store.CommandID{Seq: 2}, Kind: store.CommandSignal, To: store.RunKey{ID: "s"}}
	from := acquire(t, s, reply.To.Partition())
	for what, do := range map[string]func(seq store.CommandSeq) error{
		"Discard": func(seq store.CommandSeq) error {
			return owned.Discard(ctx, []store.CommandSeq{seq}, []store.Command{reply})
		},
		"Claim": func(seq store.CommandSeq) error {
			_, err := owned.Claim(ctx, store.HookClaim{Token: "t", Holder: store.HookHolder{Run: cmd.To}, Ack: seq,
				Reply: func(store.HookHolder) (*store.Command, error) { return &reply, nil }})
			return err
		},
	} {
		if err := from.Discard(ctx, nil, []store.Command{cmd}); err != nil {
			t.Fatal(err)
		}
		list, err := owned.Commands(ctx, 0, 1)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if err := do(1 << 40); err != nil { // the statement is known from then on, so that the next answer is that of its execution
			t.Fatal(err)
		}
		if what == "Claim" {
			if _, err := owned.Claim(ctx, store.HookClaim{Token: "t", Holder: store.HookHolder{Run: cmd.To}, Release: true}); err != nil {
				t.Fatal(err)
			}
		}
		before, err := from.Commands(ctx, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		p.drop.Store(1)
		if what == "Claim" { // which reads first
			p.drop.Store(2)
		}
		if err := do(list[0].Seq); !errors.Is(err, store.ErrUnknown) {
			t.Fatalf("%s whose answer is lost: %v", what, err)
		}
		if err := do(list[0].Seq); err != nil {
			t.Fatal(err)
		}
		after, err := from.Commands(ctx, 0, 100)
		if err != nil || len(after) != len(before)+1 {
			t.Fatalf("%s: %d replies, want 1: %v", what, len(after)-len(before), err)
		}
	}
}

// TestSilentServer has a server that does not answer any more, with connections that stay: each call ends with an error.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	name := server.Database(t)
	p := newProxy(t, server.Port())
	s := open(t, p.url(server.URL(name)))
	owned := acquire(t, s, 1)
	p.mute.Store(true)
	var calls sync.WaitGroup
	for what, call := range map[string]func() error{
		"Acquire":  func() error { _, err := s.Acquire(ctx, 2, "test", 0); return err },
		"State":    func() error { _, err := s.State(ctx, store.RunKey{ID: "r"}); return err },
		"Commands": func() error { _, err := owned.Commands(ctx, 0, 1); return err },
	} {
		calls.Go(func() {
			if err := call(); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	calls.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCommitWithoutItsStandby has commits wait for a synchronous standby that is away. Neither an operator who ends the wait nor a
// lost connection makes one a success, and the lost connection does not end the wait, after which the commit would be visible.
func TestCommitWithoutItsStandby(t *testing.T) {
	server := pgtest.New(t, "synchronous_commit=on")
	name := server.Database(t)
	p := newProxy(t, server.Port())
	s := openWith(t, p.url(server.URL(name)), postgres.Options{Unsafe: true, Shared: true})
	run := store.RunKey{ID: "r"}
	owned := acquire(t, s, run.Partition())
	if err := owned.Commit(ctx, grow(run, 0, 1, true)); err != nil {
		t.Fatal(err)
	}
	server.Exec(t, name, "alter system set synchronous_standby_names = 'away'")
	server.Exec(t, name, "select pg_reload_conf()")
	c, err := pgx.Connect(ctx, server.URL(name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(ctx) }()
	waits := func() (pid int) {
		err := c.QueryRow(ctx, "select coalesce(max(pid), 0) from pg_stat_activity where wait_event = 'SyncRep'").Scan(&pid)
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	done := make(chan error, 1)
	commit := func(from store.Seq) (pid int) {
		go func() { done <- owned.Commit(ctx, grow(run, from, 1, false)) }()
		for pid == 0 {
			pid = waits()
		}
		return pid
	}
	if _, err := c.Exec(ctx, "select pg_cancel_backend($1)", commit(1)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("a commit whose wait an operator has ended: %v", err)
	}
	if st, err := s.State(ctx, run); err != nil || st.Length != 2 {
		t.Fatal(st.Length, err)
	}
	pid := commit(2)
	p.cut()
	if err := <-done; !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("a commit whose connection was lost: %v", err)
	}
	if err := s.Close(); err != nil { // and whatever it does about lost connections
		t.Fatal(err)
	}
	if waits() != pid {
		t.Fatal("the commit does not wait for its standby any more")
	}
}
