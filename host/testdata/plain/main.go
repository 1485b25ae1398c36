// Command plain is an ordinary Go program: it knows nothing of workflows.
package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

func main() {
	in, _ := io.ReadAll(os.Stdin)
	from := time.Now()
	var wg sync.WaitGroup
	days := make([]int, 3)
	for i := range days {
		wg.Go(func() {
			time.Sleep(time.Duration(i+1) * 24 * time.Hour)
			days[i] = int(time.Since(from).Hours()) / 24
		})
	}
	wg.Wait()
	select {
	case <-time.After(time.Hour):
	case <-time.After(48 * time.Hour):
	}
	fmt.Print(string(in), " ", days, " ", time.Since(from).Round(time.Second))
}
