package pebblestore

import (
	"errors"
	"testing"
	"time"

	"github.com/wfhost/wfhost/store"
)

// settleEnv is a store whose fsyncs block while its gate is closed.
type settleEnv struct {
	*testing.T
	s *Store
	g *gate
}

func newSettle(t *testing.T) *settleEnv {
	t.Helper()
	g := newGate()
	s, err := Open("db", Options{FS: g.fs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.set(false)
		_ = s.Close() // it may have failed
	})
	return &settleEnv{t, s, g}
}

// change starts a change whose fsync blocks, and returns once the value of a key has changed.
func (e *settleEnv) change(key []byte, f func() error) (changed chan error) {
	e.Helper()
	before, err := e.s.get(key)
	if err != nil {
		e.Fatal(err)
	}
	e.g.set(true)
	changed = make(chan error, 1)
	go func() { changed <- f() }()
	for {
		v, err := e.s.get(key)
		if err != nil {
			e.Fatal(err)
		}
		if string(v) != string(before) || (v == nil) != (before == nil) {
			return changed
		}
		select {
		case err := <-changed:
			e.Fatalf("the change has returned, and has changed nothing: %v", err)
		default:
		}
	}
}

// soon has something return while fsyncs wait.
func (e *settleEnv) soon(what string, f func() error, want error) {
	e.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		if !errors.Is(err, want) {
			e.Errorf("%s: %v, want %v", what, err, want)
		}
	case <-time.After(10 * time.Second):
		e.Errorf("%s waits for an fsync", what)
		e.g.set(false)
		<-done
	}
}

// waits fails the test if a call that must wait for an fsync has returned.
func (e *settleEnv) waits(what string, done chan error) {
	e.Helper()
	select {
	case err := <-done:
		e.Fatalf("%s has returned before it was durable: %v", what, err)
	case <-time.After(50 * time.Millisecond): // longer than a call that does not wait takes
	}
}

func (e *settleEnv) do(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// TestTokensAreReadWhileOneChanges looks up tokens while the fsync of a new token, and then of a deletion, is
// blocked.
func TestTokensAreReadWhileOneChanges(t *testing.T) {
	e := newSettle(t)
	tokens := e.s.Tokens()
	old, added := store.Token{Hash: store.Digest{1}, Name: "old"}, store.Token{Hash: store.Digest{2}, Name: "added"}
	e.do(tokens.Add(t.Context(), old))
	read := func(x store.Token) func() error {
		return func() error {
			got, err := tokens.Token(t.Context(), x.Hash)
			if err == nil && got.Name != x.Name {
				t.Errorf("token %+v, want %+v", got, x)
			}
			return err
		}
	}
	add := e.change(tokenKey(added.Hash[:]), func() error { return tokens.Add(t.Context(), added) })
	e.soon("another token", read(old), nil)
	e.soon("a token that is not durable", read(added), store.ErrNotFound)
	list := make(chan error, 1)
	go func() {
		n := 0
		for _, err := range tokens.All(t.Context()) {
			n++
			if err != nil {
				t.Error(err)
			}
		}
		if n != 2 {
			t.Errorf("%d tokens are listed", n)
		}
		list <- nil
	}()
	e.waits("the list", list)
	e.waits("the addition", add)
	e.g.set(false)
	e.do(errors.Join(<-add, <-list))
	e.do(read(added)())

	remove := e.change(tokenKey(old.Hash[:]), func() error { return tokens.Delete(t.Context(), old.Hash) })
	e.soon("another token", read(added), nil)
	e.soon("a token whose deletion is not durable", read(old), nil)
	e.waits("the deletion", remove)
	e.g.set(false)
	e.do(<-remove)
	if err := read(old)(); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a deleted token is read: %v", err)
	}
	if n := len(e.s.settling.before); n > 0 {
		t.Errorf("%d records are kept", n)
	}
}

// TestTokensOfAFailedStore has the store fail while a token is deleted and another one is added: the state on disk is
// unknown, and readers get both as they were.
func TestTokensOfAFailedStore(t *testing.T) {
	old, added := store.Token{Hash: store.Digest{1}}, store.Token{Hash: store.Digest{2}}
	for name, c := range map[string]struct {
		key    store.Digest
		change func(store.TokenStore) error
		want   error
	}{
		"delete": {old.Hash, func(s store.TokenStore) error { return s.Delete(t.Context(), old.Hash) }, nil},
		"add":    {added.Hash, func(s store.TokenStore) error { return s.Add(t.Context(), added) }, store.ErrNotFound},
	} {
		e := newSettle(t)
		e.do(e.s.Tokens().Add(t.Context(), old))
		changed := e.change(tokenKey(c.key[:]), func() error { return c.change(e.s.Tokens()) })
		e.s.fail(errors.New("disk"))
		if err := <-changed; !errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := e.s.Tokens().Token(t.Context(), c.key); !errors.Is(err, c.want) {
			t.Errorf("after a failed %s: %v, want %v", name, err, c.want)
		}
	}
}

// TestNamespacesAreReadWhileOthersChange looks up namespaces while the fsyncs of a retention, a quota, a key and a
// new namespace are blocked. A caller that wants to create the same namespace gets it when it is durable.
func TestNamespacesAreReadWhileOthersChange(t *testing.T) {
	e := newSettle(t)
	id, err := e.s.Namespace(t.Context(), "there", true)
	e.do(err)
	read := func(name string, create bool) func() error {
		return func() error { _, err := e.s.Namespace(t.Context(), name, create); return err }
	}
	for what, c := range map[string]struct {
		key    []byte
		change func() error
	}{
		"retention": {store.RetentionKey(id, "w"), func() error {
			return e.s.SetRetention(t.Context(), store.Retention{Namespace: id, Workflow: "w", CompletedMs: 1})
		}},
		"quota": {store.QuotaKey(id), func() error { return e.s.SetQuota(t.Context(), store.Quota{Namespace: id, Runs: 1}) }},
		"key": {store.GlobalKey(0, store.TableKey, []byte("k")), func() error {
			return e.s.AddSealKey(t.Context(), store.SealKey{ID: "k"})
		}},
	} {
		changed := e.change(c.key, c.change)
		e.soon("a namespace beside a "+what, read("there", false), nil)
		e.soon("a namespace that would be created beside a "+what, read("there", true), nil)
		e.soon("a namespace that is not there beside a "+what, read("nowhere", false), store.ErrNotFound)
		e.waits("the "+what, changed)
		e.g.set(false)
		e.do(<-changed)
	}
	made := e.change(namespaceKey("new"), read("new", true))
	e.soon("another namespace", read("there", true), nil)
	e.soon("a namespace that is not durable", read("new", false), store.ErrNotFound)
	again := make(chan error, 1)
	go func() {
		ns, err := e.s.Namespace(t.Context(), "new", true)
		if ns != id+1 {
			t.Errorf("the new namespace is %d, want %d", ns, id+1)
		}
		again <- err
	}()
	e.waits("the creation", made)
	e.waits("the second creation", again)
	e.g.set(false)
	e.do(errors.Join(<-made, <-again))
	e.do(read("new", false)())
}

// TestLimitsAreReadWhileOthersChange looks up limits while another workflow's are being set. A reader of the latter
// waits for the new value, even if the old one was cached.
func TestLimitsAreReadWhileOthersChange(t *testing.T) {
	e := newSettle(t)
	set := func(workflow, data string) error {
		l := store.Limits{Workflow: workflow, Data: []byte(data)}
		return e.s.SetLimits(t.Context(), l, store.Command{Kind: store.CommandLimits, To: l.Queue()})
	}
	is := func(workflow, data string) func() error {
		return func() error {
			l, err := e.s.LimitsOf(t.Context(), 0, workflow)
			if string(l.Data) != data {
				t.Errorf("the limits of %s are %q, want %q", workflow, l.Data, data)
			}
			return err
		}
	}
	e.do(set("there", "1"))
	e.do(set("changed", "1"))
	for _, data := range []string{"2", "", "3"} { // set, removed, and set where none were
		e.do(is("there", "1")())
		changed := e.change(store.LimitsKey(0, "changed"), func() error { return set("changed", data) })
		e.soon("another workflow", is("there", "1"), nil)
		e.soon("a workflow without limits", is("none", ""), nil)
		read := make(chan error, 1)
		go func() { read <- is("changed", data)() }()
		e.waits("the change", changed)
		e.waits("who reads what is changed", read)
		e.g.set(false)
		e.do(errors.Join(<-changed, <-read))
		e.do(is("changed", data)())
	}
	changed := e.change(store.LimitsKey(0, "changed"), func() error { return set("changed", "4") })
	read := make(chan error, 1)
	go func() { read <- is("changed", "3")() }() // what is durable for certain
	e.waits("who reads what is changed", read)
	e.s.fail(errors.New("disk"))
	if err := <-changed; !errors.Is(err, store.ErrUnknown) {
		t.Error(err)
	}
	e.do(<-read)
}
