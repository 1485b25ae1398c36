package runtime

import (
	"testing"

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
	w := newWatchers()
	a, b := store.RunKey{ID: "a"}, store.RunKey{ID: "b"}
	first, stop := w.Watch(a)
	second, stopSecond := w.Watch(a)
	other, stopOther := w.Watch(b)
	w.Changed(a, false)
	w.Changed(a, false) // nobody has looked: once is enough
	if !told(first) || !told(second) || told(other) || told(first) {
		t.Error("a change of a is not told once to those that watch it, and to nobody else")
	}
	stop()
	stopSecond()
	w.Changed(a, false)
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

func TestWatchEnd(t *testing.T) {
	w := newWatchers()
	a := store.RunKey{ID: "a"}
	changed, stop := w.Watch(a)
	ended, stopEnd := w.WatchEnd(a)
	w.Changed(a, false)
	if !told(changed) || told(ended) {
		t.Error("who waits for an end is told of every change, or who watches is not")
	}
	w.Changed(a, true)
	if !told(changed) || !told(ended) {
		t.Error("an end is not told")
	}
	w.ChangedAll()
	if !told(changed) || !told(ended) {
		t.Error("one of them is not told")
	}
	stop()
	stopEnd()
}
