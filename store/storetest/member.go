package storetest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/store"
)

// Shared tests stores that several hosts use at a time. open opens one of them over the same data; expire ends the lease of a
// member whose ttl is an hour, without anybody's noticing.
func Shared(t *testing.T, open func(t *testing.T) (open Open, expire func(name string))) {
	for name, f := range map[string]func(*shared){
		"names": (*shared).names, "owners": (*shared).owners, "ended": (*shared).ended, "settings": (*shared).settings,
		"memory": (*shared).memory, "namesakes": (*shared).namesakes,
	} {
		t.Run(name, func(t *testing.T) {
			x := &shared{ctx: context.Background()}
			x.t = t
			x.open, x.expire = open(t)
			f(x)
		})
	}
}

type shared struct {
	env
	ctx    context.Context //nolint:containedctx // of a test
	expire func(name string)
}

const sharedTTL = time.Hour

func (x *shared) join(name string) (store.Shared, store.Membership, store.View) {
	x.t.Helper()
	s, ok := x.open(x.t).(store.Shared)
	if !ok {
		x.t.Fatal("the store cannot be shared")
	}
	m, v, err := s.Join(x.ctx, store.Member{Name: name, Address: "http://" + name, Weight: 2}, sharedTTL)
	x.ok(err)
	return s, m, v
}

func (x *shared) beat(m store.Membership, say store.Member) store.View {
	x.t.Helper()
	v, err := m.Beat(x.ctx, say)
	x.ok(err)
	return v
}

func names(v store.View) string {
	var list []string
	for _, m := range v.Members {
		list = append(list, m.Name)
	}
	return strings.Join(list, " ")
}

func (x *shared) names() {
	s, a, v := x.join("a")
	if names(v) != "a" || v.Members[0].Address != "http://a" {
		x.t.Fatalf("%+v", v.Members)
	}
	_, _, err := s.Join(x.ctx, store.Member{Name: "a"}, sharedTTL)
	x.is(err, store.ErrExists)
	for _, bad := range []string{"", strings.Repeat("x", store.MaxMemberName+1), "a\x00", "\xff"} {
		if _, _, err := s.Join(x.ctx, store.Member{Name: bad}, sharedTTL); err == nil {
			x.t.Fatalf("name %q was accepted", bad)
		}
	}
	_, b, v := x.join("b")
	if names(v) != "a b" {
		x.t.Fatalf("%+v", v.Members)
	}
	say := store.Member{Name: "other", Address: "http://b2", Release: "v1", Weight: 3, Draining: true,
		Settings: 7, JoinedUnixMs: 5, SkewMs: -1}
	x.beat(b, say)
	v = x.beat(a, store.Member{})
	if say.Name = "b"; names(v) != "a b" || *v.Member("b") != say || v.Member("c") != nil {
		x.t.Fatalf("%+v", v.Members)
	}
	x.ok(a.Leave(x.ctx))
	if v = x.beat(b, say); names(v) != "b" {
		x.t.Fatalf("%+v", v.Members)
	}
	x.ok(b.Leave(x.ctx))
	x.join("a")
}

func (x *shared) owners() {
	s, a, _ := x.join("a")
	s2, b, _ := x.join("b")
	p, err := s.Acquire(x.ctx, 7, "a", sharedTTL)
	x.ok(err)
	_, err = s2.Acquire(x.ctx, 7, "b", sharedTTL)
	x.is(err, store.ErrOwned)
	_, err = s.Acquire(x.ctx, 7, "a", sharedTTL) // its own
	x.ok(err)
	x.is(p.Renew(x.ctx), store.ErrFenced)
	if v := x.beat(b, store.Member{}); v.Owners[7] != "a" || v.Owners[8] != "" {
		x.t.Fatal(v.Owners)
	}
	_, err = s2.Acquire(x.ctx, 7, "b", 0) // an operator
	x.ok(err)
	_, err = s.Acquire(x.ctx, 7, "a", sharedTTL)
	x.is(err, store.ErrOwned)
	x.ok(b.Leave(x.ctx))
	if v := x.beat(a, store.Member{}); v.Owners[7] != "" {
		x.t.Fatal(v.Owners)
	}
	p, err = s.Acquire(x.ctx, 7, "a", sharedTTL)
	x.ok(err)
	x.ok(p.Release(x.ctx))
	if v := x.beat(a, store.Member{}); v.Owners[7] != "" {
		x.t.Fatal(v.Owners)
	}
}

func (x *shared) ended() {
	s, a, _ := x.join("a")
	s2, b, _ := x.join("b")
	p, err := s.Acquire(x.ctx, 7, "a", sharedTTL)
	x.ok(err)
	x.expire("a")
	x.ok(p.Renew(x.ctx)) // nobody has taken it
	if v := x.beat(a, store.Member{}); names(v) != "a b" || v.Owners[7] != "a" {
		x.t.Fatalf("after a late beat that nobody has noticed: %+v", v)
	}
	x.expire("a")
	q, err := s2.Acquire(x.ctx, 7, "b", sharedTTL)
	x.ok(err)
	x.is(p.Renew(x.ctx), store.ErrFenced)
	if v := x.beat(b, store.Member{}); names(v) != "b" || v.Owners[7] != "b" {
		x.t.Fatalf("%+v", v)
	}
	_, err = a.Beat(x.ctx, store.Member{})
	x.is(err, store.ErrFenced)
	x.ok(q.Renew(x.ctx))
	_, v, err := s.Join(x.ctx, store.Member{Name: "a"}, sharedTTL)
	x.ok(err)
	if names(v) != "a b" {
		x.t.Fatalf("%+v", v)
	}
}

// memory lets another member take partitions over and change their runs. The first one must not answer from what it remembers,
// whether its membership was removed meanwhile or nobody has noticed that its lease had ended.
func (x *shared) memory() {
	s, a, _ := x.join("a")
	s2, b, _ := x.join("b")
	length := store.Seq(0)
	commit := func(p store.Partition, st store.RunState) {
		c := store.RunCommit{Run: st.Run, Create: length == 0, Expect: length, Append: entries(length, 1), State: st}
		length++
		c.State.Length = length
		x.ok(p.Commit(x.ctx, []store.RunCommit{c}))
	}
	st, other := state("r"), key("late")
	for other.Partition() != st.Run.Partition() {
		other.ID += "-"
	}
	for _, noticed := range []bool{false, true} {
		p, err := s.Acquire(x.ctx, st.Run.Partition(), "a", sharedTTL)
		x.ok(err)
		commit(p, st)
		_, err = s.State(x.ctx, st.Run)
		x.ok(err)
		_, err = s.State(x.ctx, other)
		x.is(err, store.ErrNotFound)
		x.expire("a")
		q, err := s2.Acquire(x.ctx, st.Run.Partition(), "b", sharedTTL)
		x.ok(err)
		commit(q, st)
		if noticed {
			x.beat(b, store.Member{})
			_, err = a.Beat(x.ctx, store.Member{})
			x.is(err, store.ErrFenced)
			a, _, err = s.Join(x.ctx, store.Member{Name: "a"}, sharedTTL)
			x.ok(err)
			late := state(other.ID)
			x.ok(q.Commit(x.ctx, []store.RunCommit{{Run: other, Create: true, State: late}}))
			if r, ok := s.(store.Remembering); ok && r.Absent(other) {
				x.t.Error("a run is said to be absent that another member has created")
			}
			_, err = s.State(x.ctx, other)
			x.ok(err)
		} else {
			x.beat(a, store.Member{})
		}
		now, err := s.State(x.ctx, st.Run)
		x.ok(err)
		if now.Length != length {
			x.t.Errorf("another member has written %d entries, the state says %d; noticed: %v", length, now.Length, noticed)
		}
		x.ok(q.Release(x.ctx))
	}
}

// namesakes lets another process join under the name of one whose lease had ended: neither takes partitions of the other.
func (x *shared) namesakes() {
	s, _, _ := x.join("a")
	_, err := s.Acquire(x.ctx, 7, "a", sharedTTL)
	x.ok(err)
	x.expire("a")
	s2, _, _ := x.join("a")
	p, err := s2.Acquire(x.ctx, 7, "a", sharedTTL)
	x.ok(err)
	_, err = s.Acquire(x.ctx, 7, "a", sharedTTL)
	x.is(err, store.ErrOwned)
	x.ok(p.Renew(x.ctx))
}

// settings changes each kind of settings, and wants the generation to rise.
func (x *shared) settings() {
	s, a, v := x.join("a")
	s2, _, _ := x.join("b")
	was := v.Settings
	token, d := store.Token{Name: "t", Hash: store.Digest{1}}, store.Digest{}
	changes := []struct {
		name   string
		change func(store.Store) error
	}{
		{"quota", func(s store.Store) error { return s.SetQuota(x.ctx, store.Quota{Runs: 1}) }},
		{"retention", func(s store.Store) error {
			return s.SetRetention(x.ctx, store.Retention{Workflow: "w", Keep: 1})
		}},
		{"limits", func(s store.Store) error {
			return s.SetLimits(x.ctx, store.Limits{Workflow: "w", Data: []byte("x")}, store.Command{Kind: 1, To: key("r")})
		}},
		{"cells", func(s store.Store) error {
			cell := store.Cell{Key: []byte("h"), Value: []byte("1")}
			return s.SetCells(x.ctx, store.QueueSet{Queue: key("q"), Before: store.Cell{Key: cell.Key}, Cells: []store.Cell{cell},
				Setting: true})
		}},
		{"token", func(s store.Store) error { return s.Tokens().Add(x.ctx, token) }},
		{"token's end", func(s store.Store) error { return s.Tokens().Delete(x.ctx, token.Hash) }},
		{"key", func(s store.Store) error { return s.AddSealKey(x.ctx, store.SealKey{ID: "k", Check: []byte("c")}) }},
		{"namespace", func(s store.Store) error { _, err := s.Namespace(x.ctx, "team", true); return err }},
		{"version", func(s store.Store) (err error) {
			if d, err = s.Modules().Put(x.ctx, []byte("wasm"), store.ModuleInfo{}); err != nil {
				return err
			}
			_, err = s.Modules().AddVersions(x.ctx, []store.VersionSpec{{Workflow: "w", Module: d}})
			return err
		}},
		{"version's end", func(s store.Store) error { return s.Modules().DeleteVersion(x.ctx, 0, "w", 1) }},
	}
	for _, c := range changes {
		if err := c.change(s2); err != nil {
			x.t.Fatal(c.name, err)
		}
		v := x.beat(a, store.Member{})
		if v.Settings <= was {
			x.t.Errorf("%s: the generation of settings is %d, was %d", c.name, v.Settings, was)
		}
		was = v.Settings
	}
	if v := x.beat(a, store.Member{}); v.Settings != was {
		x.t.Errorf("the generation rose without a change")
	}
	if list, err := s.Quotas(x.ctx); err != nil || !slices.Equal(list, []store.Quota{{Runs: 1}}) {
		x.t.Error(list, err)
	}
}
