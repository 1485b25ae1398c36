// Command worker charges cards for the workflow in ./order, as a process of its own:
//
//	wfhost serve --worker-handler charge
//	wfhost upload ./examples/worker/order --allow-step charge
//	WFHOST_TOKEN=$(wfhost tokens create --scope work) go run ./examples/worker
//	wfhost start order --input '{"order":"a-1","cents":1250}' --wait
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/wfhost/wfhost/worker"
)

// Charge is what the workflow wants charged.
type Charge struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

// Receipt says that it was.
type Receipt struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

func main() {
	server := flag.String("server", "http://127.0.0.1:7777", "address of the server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	w := worker.New(*server, os.Getenv("WFHOST_TOKEN"))
	worker.Handle(w, "charge", charge)
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// charge would call the bank, with the idempotency key of the step: the bank drops the second of two charges of one key.
func charge(ctx context.Context, in Charge) (Receipt, error) {
	if in.Cents <= 0 {
		return Receipt{}, worker.Fatal(fmt.Errorf("a charge is more than 0 cents, got %d", in.Cents))
	}
	return Receipt{ID: worker.Info(ctx).IdempotencyKey, Cents: in.Cents}, nil
}
