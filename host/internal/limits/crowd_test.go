package limits

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/store"
)

// TestChangesOfACrowd makes as much happen to a queue at one instant as possible: counters expire, rules change,
// lanes are blocked and runs are admitted under seven rates. One Queue leaves the rest to the next one, so that each
// can be committed.
func TestChangesOfACrowd(t *testing.T) {
	var rates Rules
	for _, key := range "abcdefg" {
		rates = append(rates, rule(t, fmt.Sprintf("1/10s per input.%c", key)))
	}
	w := newWorld(t)
	const bound = 300
	id, most := 0, 0
	step := func(from, to, priority int) (more bool) {
		b := w.open()
		b.most = bound
		for n := from; n < to; n++ {
			input := `{"x":0` + strings.ReplaceAll(`,"a":#,"b":#,"c":#,"d":#,"e":#,"f":#,"g":#}`, "#", fmt.Sprint(n))
			run := fmt.Sprint("r", id)
			id++
			b.Ask(run, store.CommandID{Incarnation: incarnation(run), Seq: store.Seq(id)}, rates.Of([]byte(input), priority))
		}
		b.Admit(25)
		c, err := b.Close()
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, len(c.Cells))
		w.apply(c)
		return c.More
	}
	asks := func(from, n, priority int) {
		for i := 0; i < n; i += 25 {
			step(from+i, from+min(i+25, n), priority)
		}
		for step(0, 0, 0) {
		}
	}
	w.rules = rates
	asks(10000, 150, 0) // their counters expire at 11 s
	w.now = 10990
	asks(20000, 110, 0)
	asks(20000, 110, -5) // blocked by those, and checked again when the rules change
	asks(30000, 100, 0)
	w.rules = append(Rules{rule(t, "1")}, rates...)
	asks(30000, 100, 5) // not checked, since the queue is full
	asks(40000, 50, 5)
	most = 0
	w.now, w.rules = 11010, rates
	for more := step(50000, 50025, 0); more; more = step(0, 0, 0) {
	}
	if most > bound+100 {
		t.Errorf("a commit has %d cells, want about %d at most", most, bound)
	}
	w.check()
	w.now += 20000
	for range 4 {
		for step(0, 0, 0) {
		}
		w.now += 20000
	}
	if s, err := CountQueue(w.read); err != nil || s.Waiting != 0 {
		t.Errorf("%+v, %v: some are left behind", s, err)
	}
}
