package metrics

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/host/wasmgen"
	"github.com/wfhost/wfhost/store"
	"github.com/wfhost/wfhost/store/memstore"
)

var ctx = context.Background()

// trouble configures failures of a store.
type trouble struct {
	mu       sync.Mutex
	disk     store.Disk
	measures store.Measures
	get      error         // of modules
	tallies  error         // of counts
	version  chan struct{} // reads of versions wait for it; nil: they do not wait
}

func (x *trouble) set(f func(*trouble)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f(x)
}

func (x *trouble) look() trouble {
	x.mu.Lock()
	defer x.mu.Unlock()
	return trouble{disk: x.disk, measures: x.measures, get: x.get, tallies: x.tallies, version: x.version}
}

// troubled is a store in memory that has a disk, and fails as configured.
type troubled struct {
	store.Store
	*trouble
}

var (
	_ store.OnDisk   = troubled{}
	_ store.Measured = troubled{}
)

func (s troubled) Disk() (store.Disk, error) { x := s.look(); return x.disk, nil }

func (s troubled) Measure() (store.Measures, error) { x := s.look(); return x.measures, nil }

func (s troubled) Modules() store.ModuleStore { return modules{s.Store.Modules(), s.trouble} }

func (s troubled) Tallies(ctx context.Context) (map[store.NamespaceID]store.Tally, error) {
	if x := s.look(); x.tallies != nil {
		return nil, x.tallies
	}
	return s.Store.Tallies(ctx)
}

type modules struct {
	store.ModuleStore
	*trouble
}

func (m modules) Get(ctx context.Context, d store.Digest) ([]byte, error) {
	if x := m.look(); x.get != nil {
		return nil, x.get
	}
	return m.ModuleStore.Get(ctx, d)
}

func (m modules) Version(ctx context.Context, ns store.NamespaceID, workflow string, number uint32) (store.Version, error) {
	if x := m.look(); x.version != nil && workflow == "nap" {
		select {
		case <-x.version:
		case <-ctx.Done():
			return store.Version{}, ctx.Err()
		}
	}
	return m.ModuleStore.Version(ctx, ns, workflow, number)
}

// world is a host that is measured.
type world struct {
	*hosttest.Host
	*trouble
	t    *testing.T
	m    *Metrics
	seen map[string]map[float64]bool // values of each series, over all labels
}

func newWorld(t *testing.T) *world {
	m, err := New(Options{Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, m: m, seen: map[string]map[float64]bool{}, trouble: &trouble{disk: store.Disk{Path: "db", Free: 1 << 40, Total: 1 << 41}}}
	data := memstore.New()
	fails := 1
	w.Host = hosttest.New(t, hosttest.WithStore(func() store.Store { return troubled{data.Open(), w.trouble} }),
		hosttest.WithConfig(func(c *host.Config) {
			c.Events = m.Events()
			c.MaxInstances, c.MaxSegmentCPU, c.MaxFuel = 1, time.Hour, 1<<60
			c.ModuleBytes, c.WarmBytes, c.Dir = -1, -1, "" // modules are read for each activation
		}),
		hosttest.WithHandlers(func(h *host.Host) {
			host.HandleStep(h, "pay", func(context.Context, *int) (int, error) {
				fails--
				if fails >= 0 {
					return 0, errors.New("declined")
				}
				return 1, nil
			})
		}))
	for name, module := range map[string]*wasmgen.Module{
		"nap":  wasmgen.New(0).Text("nap").I64(1000).Call(abi.FnSleep).Drop().I32(0),
		"spin": wasmgen.New(0).Text("nap").I64(1000).Call(abi.FnSleep).Drop().While().EndWhile().I32(0),
		"step": wasmgen.New(0).Text("pay").Text("host/pay").I32(0).I32(0).I32(0).I32(0).Call(abi.FnStepStart).Drop().
			I32(0).I32(0).Call(abi.FnAwait).Drop().I32(0),
		"late": wasmgen.New(0).Text("s").Text("host/late").I32(0).I32(0).I32(0).I32(0).Call(abi.FnStepStart).Drop().
			I32(0).I32(0).Call(abi.FnAwait).Drop().I32(0),
		"parent": wasmgen.New(0).Text("kid").Text("nap").I32(0).I32(0).Text(`{"id":"kid","on_end":"abandon"}`).Call(abi.FnChildStart).Drop().
			Text("nap").I64(1000).Call(abi.FnSleep).Drop().I32(0),
	} {
		if _, err := w.Upload(ctx, name, module.Export(abi.ExportRun).Bytes(), host.AllowStep("*")); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) start(workflow, id string) {
	w.t.Helper()
	if _, err := w.StartRaw(ctx, workflow, nil, host.WithRunID(id)); err != nil {
		w.t.Fatal(err)
	}
}

// until polls until a condition holds.
func (w *world) until(what string, so func() bool) {
	w.t.Helper()
	late := time.After(time.Minute)
	for !so() {
		select {
		case <-late:
			w.t.Fatalf("%s: it does not happen, %+v", what, w.Stats())
		default:
			runtime.Gosched()
		}
	}
}

// scrape notes the values of all series.
func (w *world) scrape() map[string]float64 {
	w.t.Helper()
	return w.scrapeOf(w.m.Registry())
}

func (w *world) scrapeOf(g prometheus.Gatherer) map[string]float64 {
	w.t.Helper()
	families, err := g.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	now := map[string]float64{}
	for _, f := range families {
		for _, x := range f.GetMetric() {
			switch {
			case x.GetHistogram() != nil:
				now[f.GetName()] += float64(x.GetHistogram().GetSampleCount())
			case x.GetCounter() != nil:
				now[f.GetName()] += x.GetCounter().GetValue()
			default:
				now[f.GetName()] += x.GetGauge().GetValue()
			}
		}
		if w.seen[f.GetName()] == nil {
			w.seen[f.GetName()] = map[float64]bool{}
		}
		w.seen[f.GetName()][now[f.GetName()]] = true
	}
	return now
}
