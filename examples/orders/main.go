// Command orders charges a card and books a courier by HTTP, each once, however often the services fail.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
	"github.com/wfhost/wfhost/guest-sdk/go/workflow/fetch"
)

func init() { workflow.Register("orders", Order) }

func main() {}

// NewOrder is the input.
type NewOrder struct {
	Service string // base URL of the payment and courier service
	Item    string
	Cents   int
}

// Receipt is the result.
type Receipt struct{ Charge, Parcel string }

// Order charges, then ships; if no courier takes it, the charge is given back.
func Order(ctx context.Context, o NewOrder) (r Receipt, err error) {
	var undo workflow.Saga
	defer undo.Compensate(ctx, &err)
	retry := []workflow.Option{workflow.Attempts(6), workflow.Delay(time.Second), workflow.Timeout(10 * time.Second)}
	r.Charge, err = workflow.Do(ctx, "charge", func(s workflow.Step) (string, error) {
		return post(s, o.Service+"/charges", map[string]any{"cents": o.Cents})
	}, retry...)
	if err != nil {
		return r, err
	}
	undo.Add(func(ctx context.Context) error {
		_, err := workflow.Do(ctx, "refund", func(s workflow.Step) (string, error) {
			return post(s, o.Service+"/refunds", map[string]any{"charge": r.Charge})
		}, retry...)
		return err
	})
	r.Parcel, err = workflow.Do(ctx, "ship", func(s workflow.Step) (string, error) {
		return post(s, o.Service+"/parcels", map[string]any{"item": o.Item})
	}, retry...)
	return r, err
}

// post sends JSON with the step's idempotency key, and gives the id in the answer.
func post(s workflow.Step, url string, v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(s, http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer {{secret:SHOP}}")
	req.Header.Set("Idempotency-Key", s.IdempotencyKey)
	res, err := fetch.Client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }() // it has been read
	if err := fetch.Check(res); err != nil {
		return "", err
	}
	var out struct{ ID string }
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		return "", fmt.Errorf("answer of %s: %w", url, err)
	}
	return out.ID, nil
}
