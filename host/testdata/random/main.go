// Command random is a random workflow, chosen by its input: goroutines, select, timers, deadlines, bodies that
// change globals, draw randomness and read the clock, retries and cancels.
package main

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {}

func init() { workflow.Register("random", Random) }

var (
	changed int
	seen    = map[string]int{"a": 1, "b": 2, "c": 3}
	garbage [][]byte
)

// trace is what the workflow saw, in order.
type trace struct {
	mu    sync.Mutex
	lines []string
}

func (t *trace) add(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

// body does everything that would break a replay if it leaked.
func body(s workflow.Step, tag string, fails bool) (string, error) {
	changed++
	seen[tag] = changed
	for k := range seen {
		if len(seen) > 5 {
			delete(seen, k)
			break
		}
	}
	var b [8]byte
	_, _ = crand.Read(b[:])
	r := binary.LittleEndian.Uint64(b[:])
	for range r % 20 {
		garbage = append(garbage, make([]byte, r%3000))
	}
	_ = time.Now()
	if r&3 == 0 {
		time.Sleep(time.Duration(r%200) * time.Microsecond)
	}
	if r&12 == 0 {
		if err := workflow.Sleep(s, "inner", time.Second); !errors.Is(err, workflow.ErrNotHere) {
			panic(fmt.Sprint("a sleep within a body: ", err))
		}
	}
	if fails && r&32 == 0 {
		if r&64 == 0 {
			panic("now and then")
		}
		return "", errors.New("now and then")
	}
	return fmt.Sprint(tag, "=", r%1000), nil
}

// Random runs a random plan and gives what it saw.
func Random(ctx context.Context, seed uint64) ([]string, error) {
	t := &trace{}
	branch(ctx, t, "r", 0, rand.New(rand.NewPCG(seed, 1)))
	if changed != 0 || len(garbage) != 0 || len(seen) != 3 {
		return nil, errors.New("memory of a body leaked")
	}
	return t.lines, nil
}

func branch(ctx context.Context, t *trace, path string, depth int, r *rand.Rand) {
	for k := range 2 + r.IntN(3) {
		p := fmt.Sprintf("%s.%d", path, k)
		switch op := r.IntN(9); op {
		case 0, 1, 2:
			fails := r.IntN(3) == 0
			v, err := workflow.Do(ctx, p, func(s workflow.Step) (string, error) { return body(s, p, fails) },
				workflow.Attempts(1+r.IntN(3)), workflow.Delay(100*time.Millisecond))
			t.add("%s %s %v", p, v, err != nil)
		case 3:
			time.Sleep(time.Duration(1+r.IntN(5000)) * time.Millisecond)
			t.add("%s slept", p)
		case 4:
			t.add("%s %v", p, workflow.Sleep(ctx, p, time.Duration(1+r.IntN(5000))*time.Millisecond))
		case 5:
			if depth < 2 {
				fork(ctx, t, p, depth, r)
			}
		case 6:
			c, cancel := context.WithTimeout(ctx, time.Duration(1+r.IntN(3000))*time.Millisecond)
			err := workflow.Sleep(c, p, time.Duration(1+r.IntN(3000))*time.Millisecond)
			cancel()
			t.add("%s deadline %v", p, err)
		case 7:
			c := make(chan int, 2)
			go func() { time.Sleep(time.Duration(1+r.IntN(2000)) * time.Millisecond); c <- 1 }()
			select {
			case <-c:
				t.add("%s channel", p)
			case <-time.After(time.Second):
				t.add("%s after", p)
			}
		default:
			m := map[int]int{1: 1, 2: 2, 3: 3, 4: 4}
			order := ""
			for x := range m {
				order += fmt.Sprint(x)
			}
			n := 0
			for range 50 {
				n += len(make([]byte, 10_000))
			}
			t.add("%s %s %d %d %d", p, order, rand.IntN(1000), workflow.Rand(ctx).IntN(1000), time.Now().UnixNano())
		}
	}
}

func fork(ctx context.Context, t *trace, p string, depth int, r *rand.Rand) {
	var wg sync.WaitGroup
	for j := range 2 + r.IntN(2) {
		q, rr := fmt.Sprintf("%s/%d", p, j), rand.New(rand.NewPCG(r.Uint64(), 1))
		wg.Go(func() { branch(ctx, t, q, depth+1, rr) })
	}
	wg.Wait()
	t.add("%s joined", p)
}
