// nap/main.go
package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("nap", Nap) }

func main() {}

func Nap(ctx context.Context, name string) (string, error) {
	greeting, err := workflow.Do(ctx, "greet", func(s workflow.Step) (string, error) {
		return "hello " + name, nil // runs once; its result is recorded
	})
	if err != nil {
		return "", err
	}
	time.Sleep(2 * time.Second) // no instance is alive meanwhile
	return greeting + ", and good morning", nil
}
