package host_test

import (
	"fmt"
	"testing"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
)

// BenchmarkUpgrade checks and migrates sleepers that have each made one step.
func BenchmarkUpgrade(b *testing.B) {
	const runs = 1000
	h := hosttest.New(b)
	for _, name := range []string{"v1", "marked"} {
		if _, err := h.Upload(ctx, "order", hosttest.Build(b, "testdata/upgrade/"+name)); err != nil {
			b.Fatal(err)
		}
	}
	for i := range runs {
		if _, err := h.Start(ctx, "order", "x", host.WithRunID(fmt.Sprint(i)), host.WithVersion(1)); err != nil {
			b.Fatal(err)
		}
	}
	h.Settle()
	marked := hosttest.Build(b, "testdata/upgrade/marked")
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			if sum, err := h.Workflows().Check(ctx, "order", marked, host.CheckOptions{}); err != nil || sum.Compatible != runs {
				b.Fatal(sum, err)
			}
		}
	})
	b.Run("migrate", func(b *testing.B) {
		to := uint32(1)
		for b.Loop() {
			to = 3 - to
			if sum, err := h.Workflows().Migrate(ctx, "order", host.MigrateOptions{To: to}); err != nil || sum.Migrated != runs {
				b.Fatal(sum, err)
			}
			h.Settle()
		}
	})
}
