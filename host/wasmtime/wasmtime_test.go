package wasmtime

import (
	"context"
	"testing"

	"github.com/wfhost/wfhost/host/internal/engine"
	"github.com/wfhost/wfhost/host/internal/engine/conform"
)

func TestConformance(t *testing.T) {
	conform.Run(t, func(t *testing.T) engine.Engine {
		e, err := engine.Linked(Name)(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close(context.Background()) })
		return e
	})
}
