package clock

import (
	"testing"
	"time"
)

func TestFake(t *testing.T) {
	f := NewFake(time.UnixMilli(0))
	late, early := f.NewTimer(2*time.Second), f.NewTimer(time.Second)
	now := f.NewTimer(0)
	<-now.C()
	if next, ok := f.Next(); !ok || next.UnixMilli() != 1000 {
		t.Fatalf("next %v %v", next, ok)
	}
	f.Advance(1500 * time.Millisecond)
	<-early.C()
	select {
	case <-late.C():
		t.Fatal("fired early")
	default:
	}
	if !late.Stop() || late.Stop() || early.Stop() {
		t.Fatal("stop answers wrongly")
	}
	f.Set(time.UnixMilli(0))
	if f.Now().UnixMilli() != 0 {
		t.Fatal("the clock does not go back")
	}
	if _, ok := f.Next(); ok {
		t.Fatal("a stopped timer is still there")
	}
}

func TestSystem(t *testing.T) {
	c := System()
	timer := c.NewTimer(time.Millisecond)
	from := c.Now()
	<-timer.C()
	if c.Now().Before(from) || timer.Stop() {
		t.Fatal("the system clock is wrong")
	}
}
