package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/worker"
)

const orderFolder = "../../examples/worker/order"

// TestRunWorkers runs a workflow with wfhost run while a worker performs its step.
func TestRunWorkers(t *testing.T) {
	config := filepath.Join(t.TempDir(), "run.yaml")
	if err := os.WriteFile(config, []byte("worker-handler: [charge]\nquiet: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	ctx, stop := context.WithCancel(t.Context())
	worked := make(chan error, 1)
	go func() { worked <- work(ctx, "http://"+address) }()
	code, out, errs := command("run", orderFolder, "--config", config, "--listen", address, "--input", `{"order":"a-1","cents":1250}`)
	stop()
	if err := <-worked; err != nil {
		t.Error(err)
	}
	if code != exitOK || !strings.Contains(out, `1250`) || strings.Contains(out+errs, "serves") {
		t.Errorf("%d %q %q", code, out, errs)
	}
}

// work is a worker that charges orders, as soon as the server is up.
func work(ctx context.Context, url string) error {
	var token string
	for token == "" {
		select {
		case <-time.After(10 * time.Millisecond):
			token, _ = (&globals{Server: url}).tokenOf()
		case <-ctx.Done():
			return errors.New("the server has written no token")
		}
	}
	w := worker.New(url, token)
	worker.Handle(w, "charge", func(_ context.Context, in map[string]any) (map[string]any, error) { return in, nil })
	return w.Run(ctx)
}

// TestRunWorkersRefused refuses settings that no worker could use. If the address is taken, that is the only message.
func TestRunWorkersRefused(t *testing.T) {
	taken := freeAddress(t)
	defer startServer(t, binary(t), t.TempDir(), taken)(true)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--skip-sleep"}, exitUsage, "--skip-sleep jumps to the next deadline"},
		{[]string{"--listen", "nowhere"}, exitUsage, `--listen must be an address and a port, got "nowhere"`},
		{[]string{"--listen", "0.0.0.0:7777"}, exitUsage, `must be a loopback address, got "0.0.0.0:7777"`},
		{[]string{"--worker-handler", "http"}, exitError, "there is a handler of that name"},
		{[]string{"--listen", taken}, exitError, "address already in use"},
	} {
		code, out, errs := command(append([]string{"run", orderFolder, "--worker-handler", "charge", "--quiet"}, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) || strings.Contains(errs, "interrupted") {
			t.Errorf("%q: %d %q %q, want %q", c.args, code, out, errs, c.want)
		}
	}
}

// TestRunWorkersSleeping interrupts a run that waits for a worker.
func TestRunWorkersSleeping(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	address := freeAddress(t)
	go func() {
		for {
			if token, _ := (&globals{Server: "http://" + address}).tokenOf(); token != "" {
				stop()
				return
			}
			<-time.After(10 * time.Millisecond)
		}
	}()
	var out, errs bytes.Buffer
	code := execute(ctx, []string{"run", orderFolder, "--worker-handler", "charge", "--listen", address, "--input", `{"order":"a","cents":1}`},
		stdio{in: strings.NewReader(""), out: &out, err: &errs})
	if code != exitInterrupted || out.Len() > 0 {
		t.Errorf("%d %q %q", code, out.String(), errs.String())
	}
}
