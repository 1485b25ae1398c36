package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/wfhost/wfhost/client"
)

func Example() {
	ctx := context.Background()
	c, err := client.New("https://flows.example.com", client.WithToken(os.Args[1]))
	if err != nil {
		log.Fatal(err)
	}
	run, err := c.Start(ctx, "orders", map[string]int{"customer": 17}, client.StartOptions{ID: "order-17"})
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := client.Result[string](ctx, c, run.ID)
	if e, ok := errors.AsType[*client.RunError](err); ok && e.Failure != nil {
		log.Fatalf("%s: step %s failed after %d attempts: %s", e.Run.ID, e.Failure.Name, e.Failure.Attempts, e.Failure.Message)
	}
	fmt.Println(receipt, err)
}

func ExampleClient_Runs() {
	c, err := client.New("http://127.0.0.1:7777")
	if err != nil {
		log.Fatal(err)
	}
	q := client.Query{Workflow: "orders", Statuses: []client.Status{client.Failed, client.Stuck}}
	for run, err := range c.Runs(context.Background(), q) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(run.ID, run.Error, run.Reason)
	}
}

func ExampleClient_FollowLogs() {
	c, err := client.New("http://127.0.0.1:7777")
	if err != nil {
		log.Fatal(err)
	}
	for line, err := range c.FollowLogs(context.Background(), "order-17", 0) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(line.Time, line.Level, line.Text)
	}
}
