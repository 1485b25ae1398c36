// Command invoices charges the orders of a customer, all at once. How many the bank takes at a time, and how many of each
// customer in a minute, is not in the code: it is a limit of the handler, which is set from outside and may be changed at any
// time.
package main

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("invoices", Charge) }

func main() {}

// Month is what a customer has to pay.
type Month struct {
	Customer string  `json:"customer"`
	Orders   []Order `json:"orders"`
}

// Order is the input of each charge: limits take their keys from it.
type Order struct {
	Customer string `json:"customer"`
	ID       string `json:"order"`
	Cents    int    `json:"cents"`
}

// Receipt is the result of a charge.
type Receipt struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
}

// Charge returns how many cents were charged. The timeout of a charge begins when the bank is called, however long it waits
// before that.
func Charge(ctx context.Context, m Month) (cents int, err error) {
	receipts := make([]Receipt, len(m.Orders))
	g, gctx := errgroup.WithContext(ctx)
	for i, o := range m.Orders {
		o.Customer = m.Customer
		g.Go(func() (err error) {
			receipts[i], err = workflow.Call[Receipt](gctx, "charge-"+o.ID, "host/charge", o, workflow.Timeout(time.Minute))
			return err
		})
	}
	err = g.Wait()
	for _, r := range receipts {
		cents += r.Cents
	}
	return cents, err
}
