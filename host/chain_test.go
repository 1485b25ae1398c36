package host_test

import (
	"testing"
	"time"
)

// TestResultOfChain waits for the result of a run that continues as new in the meantime: from its first iteration,
// from a later one, and after a crash. The result is that of the last iteration, never of an earlier one.
func TestResultOfChain(t *testing.T) {
	p := newPrims(t)
	id := p.begin("counter", 3)
	type answer struct {
		data []byte
		err  error
	}
	answers := make(chan answer, 3)
	for n := range 3 {
		if n == 0 {
			p.Crash()
		}
		go func() {
			data, err := p.ResultRaw(ctx, id)
			answers <- answer{data, err}
		}()
		p.Settle()
		select {
		case a := <-answers:
			t.Fatalf("the wait ended with %q, %v before the run did", a.data, a.err)
		default:
		}
		p.Advance(time.Second)
	}
	for range 3 {
		if a := <-answers; a.err != nil || string(a.data) != "3" {
			t.Fatalf("%q, %v, want the result of iteration 3", a.data, a.err)
		}
	}
}
