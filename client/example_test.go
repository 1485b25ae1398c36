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

func ExampleClient_Signal() {
	c, err := client.New("http://127.0.0.1:7777")
	if err != nil {
		log.Fatal(err)
	}
	err = c.Signal(context.Background(), "order-17", "approved", map[string]string{"by": "ada"}, client.SignalOptions{IdempotencyKey: "mail-7"})
	if errors.Is(err, client.ErrTerminal) {
		log.Println("the run has ended")
	}
}

func ExampleClient_Update() {
	c, err := client.New("http://127.0.0.1:7777")
	if err != nil {
		log.Fatal(err)
	}
	var total int
	err = c.Update(context.Background(), "cart-7", "add", "click-1", map[string]any{"name": "pen", "count": 2}, &total)
	switch {
	case errors.Is(err, client.ErrRefused):
		log.Println("not accepted:", err)
	case errors.Is(err, client.ErrFailed):
		log.Println("the workflow's error:", err)
	case err == nil:
		fmt.Println(total)
	}
}

func ExampleClient_Ask() {
	c, err := client.New("http://127.0.0.1:7777")
	if err != nil {
		log.Fatal(err)
	}
	var status string
	if err := c.Ask(context.Background(), "order-17", "status", nil, &status); err != nil {
		log.Fatal(err)
	}
	fmt.Println(status)
}

func ExampleSchedules_Create() {
	c, err := client.New("http://127.0.0.1:7777", client.WithNamespace("shop"))
	if err != nil {
		log.Fatal(err)
	}
	s, err := c.Schedules().Create(context.Background(), "nightly", client.ScheduleSpec{Workflow: "report", When: "0 9 * * MON-FRI",
		Zone: "Europe/Berlin"})
	if errors.Is(err, client.ErrConflict) {
		log.Println("there is one with the id")
		return
	}
	fmt.Println(s.Next, err)
}

func ExampleClient_Upload() {
	c, err := client.New("http://127.0.0.1:7777")
	if err != nil {
		log.Fatal(err)
	}
	wasm, err := os.ReadFile("orders.wasm")
	if err != nil {
		log.Fatal(err)
	}
	versions, err := c.Upload(context.Background(), "orders", wasm, client.UploadOptions{AllowStep: []string{"charge"}})
	if errors.Is(err, client.ErrRejected) {
		log.Fatal("the module cannot be a workflow: ", err)
	}
	for _, v := range versions {
		fmt.Println(v.Workflow, v.Number)
	}
}

func ExampleClient_Bulk() {
	c, err := client.New("http://127.0.0.1:7777")
	if err != nil {
		log.Fatal(err)
	}
	answer, err := c.Bulk(context.Background(), client.Bulk{Action: "retry", Workflow: "orders", Status: "failed", DryRun: true})
	fmt.Println(answer.Matched, answer.Runs, err)
}

func ExampleClient_FollowRuns() {
	c, err := client.New("http://127.0.0.1:7777")
	if err != nil {
		log.Fatal(err)
	}
	list := func() { /* read what there is now, by c.Runs */ }
	for run, err := range c.FollowRuns(context.Background(), "orders", list) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(run.ID, run.Status)
	}
}
