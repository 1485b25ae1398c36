package main

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/typescript"
)

// TestTypeScriptOverKills runs the examples that sleep on a real server, and kills the server during each sleep. The
// runs continue where they were and complete.
func TestTypeScriptOverKills(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a server many times")
	}
	ctx, exe, data, address := t.Context(), binary(t), t.TempDir(), freeAddress(t)
	c, err := client.New("http://"+address, client.WithTokenSource((&globals{Server: "http://" + address}).tokenOf))
	if err != nil {
		t.Fatal(err)
	}
	stop := startServer(t, exe, data, address)
	defer func() { stop(true) }()
	want := map[string]string{
		"nap": `"good morning, Ada"`, "until": `"News is out at 2099-01-07T09:30:00.000Z"`, "poll": `["1s","2s","4s"]`, "drip": "4",
		"trial": `"Ada did not subscribe"`, "confirm": `"nobody came"`,
	}
	inputs := map[string]any{"nap": "Ada", "until": map[string]string{"title": "News", "at": "2099-01-07T10:30:00+01:00"}, "poll": 4,
		"drip": map[string]string{}, "trial": "Ada", "confirm": "ada@example.com", "cooldown": nil}
	for name, in := range inputs {
		wasm, _, err := typescript.Build(ctx, "../../examples/typescript/"+name+".ts")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Upload(ctx, name, wasm, client.UploadOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Start(ctx, name, in, client.StartOptions{ID: name}); err != nil {
			t.Fatal(err)
		}
	}
	const jobs = 3
	for n := range jobs {
		if err := c.Signal(ctx, "cooldown", "job", fmt.Sprint(n), client.SignalOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	kills := 0
	for left := len(inputs); left > 0; kills++ {
		if kills > 10 {
			t.Fatalf("%d runs have not ended", left)
		}
		stop(true)
		stop = startServer(t, exe, data, address)
		left = 0
		for name := range inputs {
			if rests(ctx, t, c, name).Status.Terminal() {
				continue
			}
			n, err := c.Wake(ctx, name, "")
			if err != nil {
				t.Fatal(err)
			}
			left += n // 0 for a run that waits only for a signal
		}
	}
	for name, result := range want {
		if got, err := c.ResultRaw(ctx, name); err != nil || string(got) != result {
			t.Errorf("%s: %s %v, not %s", name, got, err, result)
		}
	}
	handled := 0
	for o, err := range c.Output(ctx, "cooldown", "handled", 0) {
		if err != nil {
			t.Fatal(err)
		}
		var job string
		if err := json.Unmarshal(o.Data, &job); err != nil || job != fmt.Sprint(handled) {
			t.Errorf("job %s is handled, not %d: %v", o.Data, handled, err)
		}
		handled++
	}
	if handled != jobs || kills < 4 {
		t.Errorf("%d of %d jobs were handled, over %d kills", handled, jobs, kills)
	}
}

// rests waits until a run sleeps, waits for a signal, or has ended.
func rests(ctx context.Context, t *testing.T, c *client.Client, id string) client.Run {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for r, err := range c.FollowRun(ctx, id) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Status == client.Sleeping || r.Status == client.Waiting || r.Status.Terminal() {
			return r
		}
	}
	t.Fatalf("run %s does not come to rest", id)
	return client.Run{}
}
