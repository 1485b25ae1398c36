package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/wfhost/wfhost/worker"
)

// A worker that performs the steps of the handler "charge" until it is interrupted.
func Example() {
	type charge struct{ Cents int }
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	w := worker.New("https://wf.example.com:7777", os.Getenv("WFHOST_TOKEN"))
	w.Concurrency = 4
	worker.Handle(w, "charge", func(ctx context.Context, in charge) (string, error) {
		if in.Cents <= 0 {
			return "", worker.Fatal(errors.New("nothing to charge")) // no other attempt
		}
		key := worker.Info(ctx).IdempotencyKey // the same for all attempts of the step
		return "charged once, by the key " + key, nil
	})
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

func ExampleHeartbeat() {
	w := worker.New("http://127.0.0.1:7777", os.Getenv("WFHOST_TOKEN"))
	worker.Handle(w, "convert", func(ctx context.Context, pages int) (int, error) {
		page := 0
		if d := worker.Info(ctx).Details; d != nil { // recorded by an earlier attempt, or by a worker that was lost
			if err := json.Unmarshal(d, &page); err != nil {
				return 0, worker.Fatal(err)
			}
		}
		for ; page < pages && ctx.Err() == nil; page++ {
			// convert a page, then record the progress
			if err := worker.Heartbeat(ctx, page+1); err != nil {
				return page, err
			}
		}
		return page, context.Cause(ctx)
	})
}

func ExampleRetryAfter() {
	w := worker.New("http://127.0.0.1:7777", os.Getenv("WFHOST_TOKEN"))
	worker.Handle(w, "mail", func(_ context.Context, to string) (string, error) {
		return "", worker.RetryAfter(errors.New("the mail server is busy"), time.Minute)
	})
}
