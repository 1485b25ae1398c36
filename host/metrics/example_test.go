package metrics_test

import (
	"context"
	"log"
	"net/http"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/metrics"
)

func ExampleNew() {
	m, err := metrics.New(metrics.Options{})
	if err != nil {
		log.Fatal(err)
	}
	mine := host.Events{HostFault: func(f host.FaultInfo) { log.Println(f.RunID, f.Err) }}
	h, err := host.Open(context.Background(), host.Config{Dir: "data", Events: host.JoinEvents(m.Events(), mine)})
	if err != nil {
		log.Fatal(err)
	}
	m.Watch(h) // asks h at each scrape
	http.Handle("/metrics", m.Handler())
}
