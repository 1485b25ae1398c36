package watch_test

import (
	"testing"

	"github.com/wfhost/wfhost/host/internal/watch"
	"github.com/wfhost/wfhost/store"
)

func told(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestWatch(t *testing.T) {
	w := watch.New()
	a, b := store.RunKey{ID: "a"}, store.RunKey{ID: "b"}
	first, stop := w.Watch(a)
	second, stopSecond := w.Watch(a)
	other, stopOther := w.Watch(b)
	w.Changed(a)
	w.Changed(a) // nobody has looked: once is enough
	if !told(first) || !told(second) || told(other) || told(first) {
		t.Error("a change of a is not told once to those that watch it, and to nobody else")
	}
	stop()
	stopSecond()
	w.Changed(a)
	w.ChangedAll()
	if told(first) || told(second) || !told(other) {
		t.Error("those that have stopped are told, or the one that watches b is not")
	}
	stopOther()
	w.ChangedAll()
	if told(other) {
		t.Error("told after stop")
	}
}
