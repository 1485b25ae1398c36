// Command plain is an ordinary Go program that sleeps for days.
package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

func main() {
	name, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	start := time.Now()
	var wg sync.WaitGroup
	for day := range 3 {
		wg.Go(func() { time.Sleep(time.Duration(day+1) * 24 * time.Hour) })
	}
	wg.Wait()
	select {
	case <-time.After(time.Hour):
	case <-time.After(2 * time.Hour):
	}
	fmt.Printf("hello %s after %d hours\n", name, int(time.Since(start).Hours()))
}
