// Command paths holds workflows that wait with and without Go's scheduler.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
	_ "unsafe" // for linkname

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

//go:linkname quiet github.com/wfhost/wfhost/guest-sdk/go/workflow.quiet
func quiet() bool

//go:linkname marking github.com/wfhost/wfhost/guest-sdk/go/workflow.marking
func marking() bool

func main() {}

func init() {
	workflow.Register("quiet", Quiet)
	workflow.Register("after", After)
	workflow.Register("deadlines", Deadlines)
	workflow.Register("walk", Walk)
}

type block struct {
	next *block
	_    [100]int
}

var heap *block

// Quiet tells when the SDK finds that nothing else can happen.
func Quiet(ctx context.Context, _ int) (map[string]bool, error) {
	seen := map[string]bool{"at the beginning": quiet()}
	timer := time.AfterFunc(time.Hour, func() {})
	seen["with a timer"] = quiet()
	timer.Stop()
	runtime.Gosched()
	seen["after the timer"] = quiet()
	_ = time.After(time.Hour)
	seen["with a timer that nobody waits for"] = quiet()
	c := make(chan int)
	go func() { <-c }()
	seen["beside a goroutine that can run"] = quiet()
	runtime.Gosched()
	seen["beside a goroutine that waits"] = quiet()
	c <- 1
	seen["beside a goroutine that was woken"] = quiet()
	runtime.Gosched()
	marks, quietMarks := 0, 0
	for range 20_000 { // until the collector has come
		heap = &block{next: heap}
		if marking() {
			marks++
			if quiet() {
				quietMarks++
			}
		}
	}
	seen["while the collector marks"] = marks > 0
	seen["while the collector marks, all is quiet"] = quietMarks > 0
	heap = nil
	runtime.GC()
	seen["when it has marked"] = marking()
	go time.Sleep(time.Hour)
	runtime.Gosched()
	seen["beside a goroutine that sleeps"] = quiet()
	go func() {
		for {
			runtime.Gosched()
		}
	}()
	runtime.Gosched()
	seen["beside a goroutine that yields"] = quiet()
	return seen, ctx.Err()
}

// After has timers that come due while the workflow's one goroutine waits for a longer sleep.
func After(ctx context.Context, _ int) (lines []string, err error) {
	began := time.Now()
	add := func(line string) { lines = append(lines, fmt.Sprint(line, " ", time.Since(began))) }
	for i := range 3 {
		time.AfterFunc(time.Duration(i+1)*time.Second, func() {
			add(fmt.Sprint("timer ", i, " ", workflow.Sleep(ctx, fmt.Sprint("of timer ", i), time.Minute)))
		})
	}
	for i := range 5 {
		err = workflow.Sleep(ctx, fmt.Sprint("sleep ", i), 20*time.Second)
		add(fmt.Sprint("sleep ", i))
	}
	return lines, err
}

// Deadlines has contexts that end, and ones that do not.
func Deadlines(ctx context.Context, _ int) (lines []string, err error) {
	began := time.Now()
	for i, d := range []time.Duration{time.Hour, time.Second, time.Minute, 0} {
		c, cancel := context.WithTimeout(ctx, d)
		err := workflow.Sleep(c, fmt.Sprint("short ", i), time.Minute)
		lines = append(lines, fmt.Sprint(err, " ", time.Since(began)))
		cancel()
		err = workflow.Sleep(ctx, fmt.Sprint("long ", i), time.Hour)
		lines = append(lines, fmt.Sprint(err, " ", time.Since(began)))
	}
	return lines, nil
}

// Plan of a walk.
type Plan struct {
	Seed   uint64
	Busy   bool // keeps a timer pending, so that every wait goes by way of the scheduler
	Litter int
}

// walker makes steps. Of those that end when the world likes, one is open at a time.
type walker struct {
	mu    sync.Mutex
	one   sync.Mutex
	lines []string
	ms    int

	litter  int // garbage made with each line, so that the collector comes now and then
	garbage []*int
}

func (w *walker) add(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf(format, args...))
	for range w.litter {
		w.garbage = make([]*int, 5000)
	}
}

// duration gives one that no other sleep has.
func (w *walker) duration(r *rand.Rand) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ms++
	return time.Duration(w.ms+1000*r.IntN(5)) * time.Millisecond
}

// Walk makes random calls, whose order the plan alone decides.
func Walk(ctx context.Context, p Plan) ([]string, error) {
	if p.Busy {
		defer time.AfterFunc(24*365*time.Hour, func() {}).Stop()
	}
	w := &walker{litter: p.Litter}
	w.branch(ctx, "r", 0, rand.New(rand.NewPCG(p.Seed, 2)))
	return w.lines, nil
}

func (w *walker) branch(ctx context.Context, path string, depth int, r *rand.Rand) {
	for k := range 2 + r.IntN(3) {
		p := fmt.Sprintf("%s.%d", path, k)
		switch r.IntN(9) {
		case 0, 1:
			w.one.Lock()
			v, err := workflow.Do(ctx, p, func(workflow.Step) (string, error) { return "did " + p, nil })
			w.one.Unlock()
			w.add("%s %s %v", p, v, err)
		case 2, 3:
			w.one.Lock()
			v, err := workflow.Call[int](ctx, p, "host/echo", k)
			w.one.Unlock()
			w.add("%s %d %v", p, v, err)
		case 4:
			w.add("%s %v", p, workflow.Sleep(ctx, p, w.duration(r)))
		case 5:
			if depth < 2 {
				w.fork(ctx, p, depth, r)
			}
		case 6:
			w.handOver(ctx, p, r)
		case 7:
			c, cancel := context.WithTimeout(ctx, w.duration(r))
			_, err := workflow.Receive[int](c, "never")
			cancel()
			w.add("%s %v", p, err)
		default:
			time.Sleep(w.duration(r))
			_, err := workflow.ReceiveTimeout[int](ctx, "never", w.duration(r))
			w.add("%s %v", p, err)
		}
	}
}

// handOver sleeps in goroutines that end then, while the caller waits for a channel.
func (w *walker) handOver(ctx context.Context, p string, r *rand.Rand) {
	c := make(chan string)
	n := 1 + r.IntN(4)
	for j := range n {
		q, d := fmt.Sprint(p, "-", j), w.duration(r)
		go func() { c <- fmt.Sprint(q, workflow.Sleep(ctx, q, d)) }()
	}
	for range n {
		w.add("%s", <-c)
	}
}

func (w *walker) fork(ctx context.Context, p string, depth int, r *rand.Rand) {
	var wg sync.WaitGroup
	for j := range 2 + r.IntN(2) {
		rr := rand.New(rand.NewPCG(r.Uint64(), 1))
		wg.Go(func() { w.branch(ctx, fmt.Sprintf("%s/%d", p, j), depth+1, rr) })
	}
	wg.Wait()
	w.add("%s joined", p)
}
