package replay

import (
	"strings"
	"testing"
)

// A machine that is frozen counts what the guest has handed over, and the names of its calls.
func TestFrozenBytes(t *testing.T) {
	m := newTail(t).machine()
	m.Complete(make([]byte, 1<<20))
	m.Fail(make([]byte, 1<<19))
	must(t, 1)(m.Sleep(strings.Repeat("n", 200), 1000))
	if n := m.Freeze().Bytes(); n < 1<<20+1<<19+200 {
		t.Errorf("it takes %d bytes", n)
	}
}
