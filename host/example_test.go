package host_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/wfhost/wfhost/host"
)

// A program with workflows inside.
func Example() {
	ctx := context.Background()
	h, err := host.Open(ctx, host.Config{Dir: "data"})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	host.HandleStep(h, "mail", func(ctx context.Context, to string) (string, error) {
		return "sent to " + to + " as " + host.StepInfo(ctx).IdempotencyKey, nil
	})
	go func() { log.Println(h.Run(ctx)) }()
	wasm, err := os.ReadFile("campaign.wasm")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := h.Upload(ctx, "campaign", wasm, host.AllowStep("mail")); err != nil {
		log.Fatal(err)
	}
	run, err := h.Start(ctx, "campaign", "ada@example.com", host.WithRunID("ada"))
	if err != nil {
		log.Fatal(err)
	}
	mails, err := host.Result[int](ctx, h, run.ID)
	fmt.Println(mails, err)
}

func ExampleHost_Runs() {
	var h *host.Host // from Open
	for r, err := range h.Runs(context.Background(), host.Query{Status: host.Sleeping}) {
		fmt.Println(r.ID, r.Wake, err)
	}
}

func ExampleHost_Journal() {
	var h *host.Host // from Open
	for e, err := range h.Journal(context.Background(), "order-42", 0) {
		fmt.Println(e.Seq, e.Kind, e.Name, err)
	}
}

func ExampleHost_Get() {
	var h *host.Host // from Open
	r, err := h.Get(context.Background(), "order-42")
	fmt.Println(r.Status, r.Reason, err)
}

func ExampleHost_Cancel() {
	var h *host.Host // from Open
	if err := h.Cancel(context.Background(), "order-42"); err != nil {
		fmt.Println(err) // host.ErrTerminal if the run has ended
	}
}

func ExampleHost_Terminate() {
	var h *host.Host // from Open
	fmt.Println(h.Terminate(context.Background(), "order-42"))
}

func ExampleHost_Wake() {
	var h *host.Host // from Open
	n, err := h.Wake(context.Background(), "order-42", "cool down")
	fmt.Println(n, "sleeps ended", err)
}

func ExampleRetryAfter() {
	var h *host.Host // from Open
	host.HandleStep(h, "charge", func(_ context.Context, order string) (string, error) {
		if order == "" {
			return "", host.Fatal(errors.New("no order"))
		}
		return "", host.RetryAfter(errors.New("busy"), time.Minute)
	})
}
