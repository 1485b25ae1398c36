package examples_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// bank charges orders, and notes how.
type bank struct {
	mu    sync.Mutex
	going int
	most  int                    // at a time
	at    map[string][]time.Time // by customer
}

type order struct {
	Customer string `json:"customer"`
	ID       string `json:"order"`
	Cents    int    `json:"cents"`
}

func (b *bank) charge(h *hosttest.Host, o order) order {
	b.mu.Lock()
	b.going++
	b.most = max(b.most, b.going)
	b.at[o.Customer] = append(b.at[o.Customer], h.Clock.Now())
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.going--
	}()
	return o
}

// TestInvoices charges nine orders of one customer and two of another one: three at a time, and of each of them four in a minute.
func TestInvoices(t *testing.T) {
	b := &bank{at: map[string][]time.Time{}}
	var h *hosttest.Host
	h = hosttest.New(t, hosttest.WithHandlers(func(x *host.Host) {
		host.HandleStep(x, "charge", func(_ context.Context, o order) (order, error) { return b.charge(h, o), nil })
	}))
	ctx := t.Context()
	_, err := h.Upload(ctx, "invoices", build(t, "invoices"), host.AllowStep("charge"))
	limits := host.HandlerLimit{Handler: "charge", Concurrency: []string{"3"}, Rate: []string{"4/1m per input.customer"}}
	_, bad := h.HandlerLimits().Set(ctx, limits)
	if err := errors.Join(err, bad); err != nil {
		t.Fatal(err)
	}
	start := func(customer string, n int) {
		t.Helper()
		orders := make([]order, n)
		for i := range orders {
			orders[i] = order{ID: fmt.Sprint(customer, i), Cents: 100}
		}
		in := map[string]any{"customer": customer, "orders": orders}
		if _, err := h.Start(ctx, "invoices", in, host.WithRunID(customer)); err != nil {
			t.Fatal(err)
		}
	}
	start("acme", 9)
	start("small", 2)
	h.Settle()
	if got, err := host.Result[int](ctx, h.Host, "small"); err != nil || got != 200 {
		t.Errorf("%d, %v", got, err)
	}
	r, err := h.Get(ctx, "acme")
	if err != nil || !strings.Contains(r.Reason, `a slot of handler "host/charge", whose limit is 4/1m per input.customer`) {
		t.Errorf("%q, %v", r.Reason, err)
	}
	h.Advance(3 * time.Minute)
	if got, err := host.Result[int](ctx, h.Host, "acme"); err != nil || got != 900 {
		t.Errorf("%d, %v", got, err)
	}
	for i, at := range b.at["acme"] {
		if i >= 4 && at.Sub(b.at["acme"][i-4]) < time.Minute {
			t.Errorf("five orders in less than a minute: %v", b.at["acme"])
		}
	}
	if b.most > 3 || len(b.at["acme"]) != 9 {
		t.Errorf("%d charges at a time, want 3; %d charges, want 9", b.most, len(b.at["acme"]))
	}
}
