//go:build hostile

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/wfhost/wfhost/host/httpapi"
)

// callers are the attackers that use other requests than starts, signals and uploads of modules.
var callers = map[string]attacker{
	"hook":      {50 * time.Millisecond, guessToken},
	"update":    {100 * time.Millisecond, sendUpdate},
	"query":     {100 * time.Millisecond, askAnything},
	"schedule":  {time.Second, createSchedule},
	"define":    {2 * time.Second, uploadDefinition},
	"mutant":    {5 * time.Second, uploadMutant},
	"check":     {2 * time.Second, checkMutant},
	"import":    {2 * time.Second, importMutant},
	"everybody": {2 * time.Second, followAll},
}

// mostSchedules bounds the schedules of the attackers. Each starts at most one run a second.
const mostSchedules = 60

// badRun returns the id of a run that may exist.
func (h *hour) badRun(r *rand.Rand) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprint("bad", 1+r.IntN(max(h.started, 1)))
}

func guessToken(ctx context.Context, h *hour, r *rand.Rand) string {
	token := fmt.Sprintf("%032x", r.Uint64())
	return answer(h.call(ctx, "POST", "/v1/hooks/"+token, []byte(strings.Repeat("[", r.IntN(1<<16))), nil))
}

func sendUpdate(ctx context.Context, h *hour, r *rand.Rand) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	body := `{"input":"` + strings.Repeat("u", r.IntN(1<<15)) + `"}`
	return answer(h.call(ctx, "POST", "/v1/runs/"+h.badRun(r)+"/updates/u", []byte(body), nil))
}

func askAnything(ctx context.Context, h *hour, r *rand.Rand) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return answer(h.call(ctx, "POST", "/v1/runs/"+h.badRun(r)+"/queries/q", []byte(strings.Repeat("9", 1+r.IntN(1<<15))), nil))
}

// createSchedule creates schedules of all kinds, many of which are refused, and deletes them again.
func createSchedule(ctx context.Context, h *hour, r *rand.Rand) string {
	id := fmt.Sprint("s", r.IntN(mostSchedules))
	if r.IntN(4) == 0 {
		return "delete " + answer(h.call(ctx, "DELETE", "/v1/schedules/"+id, nil, nil))
	}
	when := oneOf(r, []string{"@every 1s", "* * * * *", "0 0 30 2 *", "@every 1ns", "R/PT1S", "0 0 29 2 */7", strings.Repeat("1,", 500) + "1 * * * *"})
	input, _ := json.Marshal(oneOf(r, deeds))
	body, _ := json.Marshal(httpapi.NewSchedule{ID: id, ScheduleSpec: httpapi.ScheduleSpec{Workflow: "hostile", Input: input, When: when}})
	return answer(h.call(ctx, "POST", "/v1/schedules", body, nil))
}

// uploadDefinition uploads workflows as data: an endless loop, and texts that are expensive to parse.
func uploadDefinition(ctx context.Context, h *hour, r *rand.Rand) string {
	texts := []string{
		`{"name":"data","steps":` + strings.Repeat(`[{"name":"a","type":"parallel","steps":`, r.IntN(2000)),
		`{"name":"data","steps":[{"name":"a","type":"wait","duration":"1s"}],"output":"${` + strings.Repeat("(", r.IntN(5000)) + `}"}`,
		`{"name":"data","steps":[` + manySteps(r.IntN(1000)) + `{"name":"b","type":"wait","duration":"1s"}]}`,
	}
	code := h.call(ctx, "POST", "/v1/definitions", []byte(oneOf(r, texts)), nil)
	if code < 300 {
		return answer(code) + " start " + answer(h.start(ctx, "data", h.nextID(), 0))
	}
	return answer(code)
}

// manySteps returns waits with distinct names.
func manySteps(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"name":"w%d","type":"wait","duration":"1ms"},`, i)
	}
	return b.String()
}

// mutant returns the module of the honest workflow with one byte changed.
func (h *hour) mutant(r *rand.Rand) []byte {
	b := bytes.Clone(h.honest)
	b[r.IntN(len(b))] = byte(r.Uint32())
	return b
}

// uploadMutant uploads a mutant, and starts it if it is accepted. It names another workflow, so that the mutant never
// becomes a version of the honest one.
func uploadMutant(ctx context.Context, h *hour, r *rand.Rand) string {
	name := fmt.Sprint("mutant", r.IntN(20))
	code := h.call(ctx, "PUT", "/v1/workflows/"+name+"/versions", h.mutant(r), nil)
	if code < 300 {
		input := map[string]int64{"untilUnixMs": time.Now().Add(time.Minute).UnixMilli(), "longestMs": 1000}
		return "accepted, start " + answer(h.start(ctx, name, h.nextID(), input))
	}
	return answer(code)
}

// checkMutant checks live runs against a mutant.
func checkMutant(ctx context.Context, h *hour, r *rand.Rand) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return answer(h.call(ctx, http.MethodPost, "/v1/workflows/hostile/check", h.mutant(r), nil))
}

// importMutant exports a run and imports it with some bytes changed.
func importMutant(ctx context.Context, h *hour, r *rand.Rand) string {
	file, err := h.file(ctx, "/v1/runs/"+h.badRun(r)+"/export")
	if err != nil || len(file) == 0 {
		return "no export"
	}
	for range 1 + r.IntN(4) {
		file[r.IntN(len(file))] = byte(r.Uint32())
	}
	return answer(h.call(ctx, http.MethodPost, "/v1/runs:import", file[:len(file)-r.IntN(2)*r.IntN(len(file))], nil))
}

// file returns the body of an answer.
func (h *hour) file(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.address+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+h.token)
	res, err := h.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, nil
	}
	return io.ReadAll(io.LimitReader(res.Body, 8<<20))
}

// followAll follows all runs without reading the answer.
func followAll(ctx context.Context, h *hour, _ *rand.Rand) string {
	return h.raw(ctx, h.head("GET", "/v1/events")+"Accept: text/event-stream\r\n\r\n")
}
