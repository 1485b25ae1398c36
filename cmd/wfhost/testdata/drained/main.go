// Command drained holds workflows whose only step takes a few seconds, and is made at most once.
package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {}

func init() {
	workflow.Register("handler", handler)
	workflow.Register("body", body)
}

// handler requests a URL by the host's handler.
func handler(ctx context.Context, url string) (string, error) {
	r, err := workflow.Call[struct{ Body string }](ctx, "slow", "host/http", map[string]string{"url": url},
		workflow.AtMostOnce())
	return r.Body, err
}

// body does nothing for a while.
func body(ctx context.Context, d time.Duration) (string, error) {
	return workflow.Do(ctx, "slow", func(workflow.Step) (string, error) {
		time.Sleep(d)
		return "slept", nil
	}, workflow.AtMostOnce())
}
