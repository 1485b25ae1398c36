package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/store/memstore"
)

// A program with workflows inside.
func Example() {
	ctx := context.Background()
	h, err := host.Open(ctx, host.Config{Dir: "data"})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	host.HandleStep(h, "mail", func(ctx context.Context, to string) (string, error) {
		return "sent to " + to + " as " + host.StepInfo(ctx).IdempotencyKey, nil
	})
	go func() { log.Println(h.Run(ctx)) }()
	wasm, err := os.ReadFile("campaign.wasm")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := h.Upload(ctx, "campaign", wasm, host.AllowStep("mail")); err != nil {
		log.Fatal(err)
	}
	run, err := h.Start(ctx, "campaign", "ada@example.com", host.WithRunID("ada"))
	if err != nil {
		log.Fatal(err)
	}
	mails, err := host.Result[int](ctx, h, run.ID)
	fmt.Println(mails, err)
}

// openNap opens a host in memory and runs it. Its workflow "nap" sleeps for the duration in its input.
func openNap() *host.Host {
	h, err := host.Open(context.Background(), host.Config{Store: memstore.New().Open()})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = h.Run(context.Background()) }()
	if _, err := h.Upload(context.Background(), "nap", napModule()); err != nil {
		log.Fatal(err)
	}
	return h
}

func ExampleOpen() {
	h, err := host.Open(context.Background(), host.Config{Dir: os.TempDir() + "/wfhost-example"})
	if err != nil {
		log.Fatal(err)
	}
	// Register handlers here, then: go h.Run(ctx)
	fmt.Println(h.Stats().Instances, h.Close())
	// Output: 0 <nil>
}

func ExampleHost_Run() {
	h, err := host.Open(context.Background(), host.Config{Store: memstore.New().Open()})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	ctx, stop := context.WithCancel(context.Background())
	stop() // a program stops it by a signal
	fmt.Println(h.Run(ctx))
	// Output: <nil>
}

func ExampleHost_Upload() {
	h := openNap()
	defer func() { _ = h.Close() }()
	v, err := h.Upload(context.Background(), "nap", napModule())
	fmt.Println(v.Workflow, v.Number, v.New, err) // the same bytes are the same version
	_, err = h.Upload(context.Background(), "text", []byte("not Wasm"))
	fmt.Println(errors.Is(err, host.ErrRejected))
	// Output:
	// nap 1 false <nil>
	// true
}

func ExampleHost_Start() {
	h := openNap()
	defer func() { _ = h.Close() }()
	ctx := context.Background()
	r, err := h.StartRaw(ctx, "nap", []byte("1d"), host.WithRunID("ada"))
	fmt.Println(r.ID, r.Existed, err)
	r, err = h.StartRaw(ctx, "nap", []byte("1d"), host.WithRunID("ada"))
	fmt.Println(r.ID, r.Existed, err)
	_, err = h.StartRaw(ctx, "nap", []byte("2d"), host.WithRunID("ada"))
	fmt.Println(errors.Is(err, host.ErrConflict))
	// Output:
	// ada false <nil>
	// ada true <nil>
	// true
}

func ExampleResult() {
	h := openNap()
	defer func() { _ = h.Close() }()
	r, err := h.StartRaw(context.Background(), "nap", []byte("1ms"))
	if err != nil {
		log.Fatal(err)
	}
	text, err := host.Result[string](context.Background(), h, r.ID)
	fmt.Printf("%q %v\n", text, err)
	// Output: "" <nil>
}

func ExampleHost_Get() {
	h := openNap()
	defer func() { _ = h.Close() }()
	r, _ := h.StartRaw(context.Background(), "nap", []byte("1d"))
	_, _, _ = h.WaitIdle(context.Background())
	r, err := h.Get(context.Background(), r.ID)
	fmt.Println(r.Status, r.Wake.Sub(r.Started).Round(time.Minute), err)
	_, err = h.Get(context.Background(), "nobody")
	fmt.Println(errors.Is(err, host.ErrNotFound))
	// Output:
	// sleeping 24h0m0s <nil>
	// true
}

func ExampleHost_Runs() {
	h := openNap()
	defer func() { _ = h.Close() }()
	for _, id := range []string{"a", "b", "c"} {
		_, _ = h.StartRaw(context.Background(), "nap", []byte("1d"), host.WithRunID(id))
	}
	_, _, _ = h.WaitIdle(context.Background())
	for r, err := range h.Runs(context.Background(), host.Query{Status: host.Sleeping, Limit: 2}) {
		fmt.Println(r.ID, r.Status, err)
	}
	// Output:
	// c sleeping <nil>
	// b sleeping <nil>
}

func ExampleHost_Journal() {
	h := openNap()
	defer func() { _ = h.Close() }()
	r, _ := h.StartRaw(context.Background(), "nap", []byte("1ms"))
	_, _ = h.Wait(context.Background(), r.ID)
	for e, err := range h.Journal(context.Background(), r.ID, 0) {
		fmt.Println(e.Seq, e.Kind, e.Name, err)
	}
	// Output:
	// 0 started nap <nil>
	// 1 activated  <nil>
	// 2 sleep nap <nil>
	// 3 timer  <nil>
	// 4 completed  <nil>
}

func ExampleHost_Cancel() {
	h := openNap()
	defer func() { _ = h.Close() }()
	r, _ := h.StartRaw(context.Background(), "nap", []byte("1d"))
	fmt.Println(h.Cancel(context.Background(), r.ID))
	_, err := h.Cancel(context.Background(), r.ID)
	fmt.Println(errors.Is(err, host.ErrTerminal)) // an end is final
	// Output:
	// true <nil>
	// true
}

func ExampleHost_Terminate() {
	h := openNap()
	defer func() { _ = h.Close() }()
	r, _ := h.StartRaw(context.Background(), "nap", []byte("1d"))
	fmt.Println(h.Terminate(context.Background(), r.ID))
	r, _ = h.Get(context.Background(), r.ID)
	fmt.Println(r.Status)
	// Output:
	// <nil>
	// terminated
}

func ExampleHost_Wake() {
	h := openNap()
	defer func() { _ = h.Close() }()
	r, _ := h.StartRaw(context.Background(), "nap", []byte("1d"))
	_, _, _ = h.WaitIdle(context.Background())
	n, err := h.Wake(context.Background(), r.ID, "nap")
	fmt.Println(n, err)
	r, _ = h.Wait(context.Background(), r.ID)
	fmt.Println(r.Status)
	// Output:
	// 1 <nil>
	// completed
}

func ExampleWorkflows_DeleteVersion() {
	h := openNap()
	defer func() { _ = h.Close() }()
	_, _ = h.StartRaw(context.Background(), "nap", []byte("1d"), host.WithRunID("ada"))
	fmt.Println(h.Workflows().DeleteVersion(context.Background(), "nap", 1))
	// Output: nap@1 is in use by 1 runs, one of which is "ada"; delete them first
}

func ExampleHandleStep() {
	h := openNap()
	defer func() { _ = h.Close() }()
	host.HandleStep(h, "charge", func(ctx context.Context, cents int) (string, error) {
		// A payment service that gets the key makes the payment once, however often this is called.
		return fmt.Sprintf("%d cents as %s", cents, host.StepInfo(ctx).IdempotencyKey), nil
	})
}

func ExampleRetryAfter() {
	var h *host.Host // from Open
	host.HandleStep(h, "charge", func(_ context.Context, order string) (string, error) {
		if order == "" {
			return "", host.Fatal(errors.New("no order"))
		}
		return "", host.RetryAfter(errors.New("busy"), time.Minute)
	})
}

func ExampleHost_Namespace() {
	h := openNap()
	defer func() { _ = h.Close() }()
	ctx := context.Background()
	team, err := h.Namespace(ctx, "team-a")
	if err != nil {
		log.Fatal(err)
	}
	_, err = team.StartRaw(ctx, "nap", []byte("1d"), host.WithRunID("ada"))
	fmt.Println(errors.Is(err, host.ErrNotFound)) // nothing was uploaded to it
	_, _ = team.Upload(ctx, "nap", napModule())
	r, err := team.StartRaw(ctx, "nap", []byte("1d"), host.WithRunID("ada"))
	fmt.Println(r.Namespace, r.ID, err)
	_, err = h.Get(ctx, "ada")
	fmt.Println(errors.Is(err, host.ErrNotFound)) // the default namespace has no such run
	// Output:
	// true
	// team-a ada <nil>
	// true
}

// padded pads payloads to multiples of 256 bytes before encryption, so that the disk does not reveal their length.
type padded struct{ *host.Keyring }

func (p padded) Encode(dst, place, payload []byte) ([]byte, error) {
	long := append(bytes.Clone(payload), 0x80) // where the payload ends
	long = append(long, make([]byte, -len(long)&255)...)
	return p.Keyring.Encode(dst, place, long)
}

func (p padded) Decode(key string, place, encoded []byte) ([]byte, error) {
	long, err := p.Keyring.Decode(key, place, encoded)
	if err != nil {
		return nil, err
	}
	return long[:bytes.LastIndexByte(long, 0x80)], nil
}

func ExampleCodec() {
	line, err := host.NewKeyLine("2026-11") // keep it in a key service
	if err != nil {
		log.Fatal(err)
	}
	keys, err := host.ParseKeyring([]byte(line))
	if err != nil {
		log.Fatal(err)
	}
	data := memstore.New()
	h, err := host.Open(context.Background(), host.Config{Store: data.Open(), Codec: padded{keys}})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = h.Run(context.Background()) }()
	if _, err := h.Upload(context.Background(), "nap", napModule()); err != nil {
		log.Fatal(err)
	}
	r, err := h.StartRaw(context.Background(), "nap", []byte("1ms"))
	if err != nil {
		log.Fatal(err)
	}
	text, err := host.Result[string](context.Background(), h, r.ID)
	fmt.Printf("%q %v\n", text, errors.Join(err, h.Close()))
	_, err = host.Open(context.Background(), host.Config{Store: data.Open()})
	fmt.Println(errors.Is(err, host.ErrKey), err)
	// Output:
	// "" <nil>
	// true the data is encrypted: it needs the keys ["2026-11"], and none was given
}
