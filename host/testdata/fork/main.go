// Command fork has bodies that do all sorts of things to their instance, of which the workflow must not notice anything.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {}

func init() {
	workflow.Register("ends", ends)
	workflow.Register("beside", beside)
	workflow.Register("long", long)
}

var (
	counter int
	kept    []byte
	things  = map[string]int{}
)

// bodies are in the order in which they are executed.
var bodies = []struct {
	name string
	do   func(s workflow.Step) (string, error)
}{
	{"plain", func(workflow.Step) (string, error) { return "done", nil }},
	{"writes", func(workflow.Step) (string, error) {
		counter += 1000
		for i := range 1000 {
			things[fmt.Sprint(i)] = i
		}
		return fmt.Sprint(counter, len(things)), nil
	}},
	{"grows", func(workflow.Step) (string, error) {
		kept = make([]byte, 8<<20)
		for i := range kept {
			kept[i] = byte(i)
		}
		return fmt.Sprint(len(kept)), nil
	}},
	{"collects", func(workflow.Step) (string, error) {
		for range 100 {
			kept = make([]byte, 1<<16)
		}
		runtime.GC()
		return "", nil
	}},
	{"fails", func(workflow.Step) (string, error) { return "", workflow.Fatal(errors.New("as it should")) }},
	{"panics", func(workflow.Step) (string, error) { panic("as it should") }},
	{"waits", func(workflow.Step) (string, error) {
		time.Sleep(20 * time.Millisecond)
		return "", nil
	}},
	{"leaves goroutines", func(workflow.Step) (string, error) {
		for range 10 {
			go func() { time.Sleep(time.Hour); counter++ }()
		}
		done := make(chan int)
		go func() { done <- 7 }()
		return fmt.Sprint(<-done), nil
	}},
	{"prints", func(workflow.Step) (string, error) {
		fmt.Println("a line of a body")
		return strings.Repeat("long ", 10_000), nil
	}},
	{"takes too long", func(workflow.Step) (string, error) {
		time.Sleep(time.Hour)
		return "", nil
	}},
	{"computes too long", func(workflow.Step) (string, error) {
		for {
			counter++
		}
	}},
	{"exits", func(workflow.Step) (string, error) {
		os.Exit(3)
		return "", nil
	}},
	{"again", func(s workflow.Step) (string, error) {
		if s.Attempt < 3 {
			return "", fmt.Errorf("attempt %d", s.Attempt)
		}
		return fmt.Sprint(s.Attempt), nil
	}},
	{"last", func(workflow.Step) (string, error) { return fmt.Sprint(counter, len(things), len(kept)), nil }},
}

func ends(ctx context.Context, beside int) (list []string, err error) {
	still := make(chan int)
	for range beside {
		go func() { <-still }()
	}
	for _, b := range bodies {
		attempts, timeout := 1, time.Minute
		if b.name == "again" {
			attempts = 3
		}
		if strings.HasSuffix(b.name, "too long") {
			timeout = 200 * time.Millisecond
		}
		v, err := workflow.Do(ctx, b.name, b.do, workflow.Attempts(attempts), workflow.Delay(time.Millisecond),
			workflow.Timeout(timeout))
		what := ""
		if err != nil {
			what = err.Error()
		}
		list = append(list, fmt.Sprintf("%s: %.20s %s, %d %d %d", b.name, v, what, counter, len(things), len(kept)))
		counter++
		if err := workflow.Sleep(ctx, "after "+b.name, time.Second); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// beside sleeps while a body runs, and tells when it has woken.
func beside(ctx context.Context, ms int) (string, error) {
	done := make(chan string, 1)
	go func() {
		v, err := workflow.Do(ctx, "slow", func(workflow.Step) (string, error) {
			time.Sleep(3 * time.Second)
			counter++
			return fmt.Sprint("body ", counter), nil
		})
		done <- fmt.Sprint(v, err)
	}()
	time.Sleep(time.Duration(ms) * time.Millisecond)
	if _, err := workflow.Emit(ctx, "woke", ms); err != nil {
		return "", err
	}
	return fmt.Sprint(<-done, " ", counter), nil
}

// long has one body that takes long.
func long(ctx context.Context, ms int) (string, error) {
	return workflow.Do(ctx, "slow", func(workflow.Step) (string, error) {
		time.Sleep(time.Duration(ms) * time.Millisecond)
		return "done", nil
	})
}
