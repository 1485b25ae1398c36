package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// testNamespaces creates namespaces and finds them again: each name has one id, and no id is used twice.
func testNamespaces(t *testing.T, e *env) {
	ctx := context.Background()
	list := func() (names []string) {
		t.Helper()
		for ns, err := range e.s.Namespaces(ctx) {
			e.ok(err)
			id, err := e.s.Namespace(ctx, ns.Name, false)
			e.ok(err)
			if id != ns.ID {
				t.Fatalf("%+v has the id %d", ns, id)
			}
			names = append(names, ns.Name)
		}
		return names
	}
	if names := list(); !slices.Equal(names, []string{store.DefaultNamespace}) {
		t.Fatalf("namespaces %v", names)
	}
	_, err := e.s.Namespace(ctx, "acme", false)
	e.is(err, store.ErrNotFound)
	for _, name := range []string{"", "-a", "a-", "A", "a.b", "a b", "\xc3\xa4", strings.Repeat("x", 64)} {
		if _, err := e.s.Namespace(ctx, name, true); err == nil {
			t.Errorf("namespace %q was created", name)
		}
		_, err := e.s.Namespace(ctx, name, false)
		e.is(err, store.ErrNotFound)
	}
	ids := map[string]store.NamespaceID{store.DefaultNamespace: 0}
	names := []string{"zoo", "acme", "b-2", "0", "default", strings.Repeat("x", 63)}
	for range 2 {
		for _, name := range names {
			id, err := e.s.Namespace(ctx, name, true)
			e.ok(err)
			if before, known := ids[name]; known && before != id {
				t.Fatalf("namespace %q has the ids %d and %d", name, before, id)
			}
			ids[name] = id
		}
		e.reopen()
	}
	used := map[store.NamespaceID]bool{}
	for _, id := range ids {
		used[id] = true
	}
	slices.Sort(names)
	if got := list(); len(used) != len(ids) || !slices.Equal(got, names) {
		t.Fatalf("ids %v, namespaces %v", ids, got)
	}
	for range e.s.Namespaces(ctx) {
		break // giving up early is legal
	}
	var wg sync.WaitGroup
	var got [8]store.NamespaceID
	for i := range got {
		wg.Go(func() {
			var err error
			got[i], err = e.s.Namespace(ctx, "new", true)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if one := slices.Compact(got[:]); len(one) != 1 || used[one[0]] {
		t.Fatalf("ids %v of one name", got)
	}
}

// testManyNamespaces creates the maximum number of namespaces: another one is refused, and the existing ones are
// found.
func testManyNamespaces(t *testing.T, e *env) {
	ctx := context.Background()
	name := func(i int) string { return fmt.Sprint("n", i) }
	for i := range store.MaxNamespaces {
		if _, err := e.s.Namespace(ctx, name(i), true); err != nil {
			t.Fatalf("namespace %d: %v", i, err)
		}
	}
	for range 2 {
		_, err := e.s.Namespace(ctx, "one-more", true)
		e.is(err, store.ErrTooLarge)
		_, err = e.s.Namespace(ctx, "one-more", false)
		e.is(err, store.ErrNotFound)
		for _, i := range []int{0, store.MaxNamespaces - 1} {
			id, err := e.s.Namespace(ctx, name(i), true)
			e.ok(err)
			if id != store.NamespaceID(i+1) {
				t.Errorf("namespace %d has the id %d", i, id)
			}
		}
		e.reopen()
	}
}
