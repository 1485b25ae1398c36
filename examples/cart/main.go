// Command cart is a cart that several people fill, by updates: each gets the new total, or learns why the cart does not take it.
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() {
	workflow.Register("cart", Cart, workflow.UpdateOf[Item]("add"), workflow.Queries("total"), workflow.Signals("order"))
}

func main() {}

// Item is the input of the update.
type Item struct {
	Name  string `jsonschema:"required,minLength=1"`
	Count int    `jsonschema:"required,minimum=1"`
}

// Total is its answer, and the result.
type Total struct{ Things, Cents int }

const maxThings = 100

// Cart takes articles until it is ordered.
func Cart(ctx context.Context, _ any) (Total, error) {
	var total Total
	workflow.Query(ctx, "total", func(any) (Total, error) { return total, nil })
	added := 0
	workflow.OnUpdate(ctx, "add", func(ctx context.Context, in Item) (Total, error) {
		if total.Things+in.Count > maxThings { // updates that were accepted before it are handled by now
			return total, tooMany(total)
		}
		total.Things += in.Count // before it waits, so that updates that come meanwhile are validated with it
		added++                  // names of steps are unique
		price, err := workflow.Do(ctx, fmt.Sprintf("price %d of %s", added, in.Name), func(workflow.Step) (int, error) {
			return 10 * len(in.Name), nil // a real one asks a catalogue
		})
		if err != nil {
			total.Things -= in.Count
			return total, err
		}
		total.Cents += in.Count * price
		return total, nil
	}, workflow.Validate(func(in Item) error {
		if total.Things+in.Count > maxThings {
			return tooMany(total)
		}
		return nil
	}))
	_, err := workflow.Receive[any](ctx, "order")
	return total, errors.Join(err, workflow.UpdatesDone(ctx))
}

func tooMany(total Total) error {
	return fmt.Errorf("the cart holds %d things, and has %d", maxThings, total.Things)
}
