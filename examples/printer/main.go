// Command printer prints documents on one of five printers, at most two at a time of each customer. The limits are not in the
// code: they are set from outside, and may be changed while documents wait.
package main

import (
	"context"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("printer", Print) }

func main() {}

// Document is a document to print.
type Document struct {
	Customer string `json:"customer"`
	Title    string `json:"title"`
	Pages    int    `json:"pages"`
}

// Print holds its slot until the last page has come out.
func Print(ctx context.Context, d Document) (string, error) {
	job, err := workflow.Do(ctx, "send", func(workflow.Step) (string, error) {
		return "printing " + d.Title + " of " + d.Customer, nil
	})
	if err != nil {
		return "", err
	}
	time.Sleep(time.Duration(d.Pages) * 10 * time.Second)
	return job, nil
}
