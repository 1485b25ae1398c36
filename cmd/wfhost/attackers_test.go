//go:build hostile

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/httpapi"
	"github.com/wfhost/wfhost/host/wasmgen"
)

// attacker repeats a request, and describes each answer.
type attacker struct {
	every time.Duration
	do    func(ctx context.Context, h *hour, r *rand.Rand) string
}

// deeds are those of testdata/hostile.
var deeds = []string{"compute", "recurse", "grow", "log", "print", "emit", "fork", "zero", "handles", "steps", "fail", "send", "again"}

// modules are small modules with code that no compiler would write.
var modules = map[string]func() []byte{
	"memory": func() []byte { // grows forever
		return wasmgen.New(0).While().I32(1).Op(0x40, 0).Drop().Op(0x41, 0).Op(0x0d, 1).EndWhile().I32(0).Export(abi.ExportRun).Bytes()
	},
	"tables": func() []byte { // its table grows forever, by a million elements at a time
		return []byte("\x00asm\x01\x00\x00\x00\x01\x05\x01\x60\x00\x01\x7f\x03\x02\x01\x00\x04\x04\x01\x70\x00\x01\x05\x03\x01\x00\x02" +
			"\x07\x19\x02\x06memory\x02\x00\x0cworkflow_run\x00\x00\x0a\x16\x01\x14\x00\x03\x40\xd0\x70\x41\x80\x80\xc0\x00\xfc\x0f\x00\x1a\x0c\x00\x0b\x41\x00\x0b")
	},
	"random": func() []byte {
		m := wasmgen.New(0)
		m.Pages = 1000
		return m.While().I32(0).I32(64<<20).Call("wasi:random_get").Op(0x0d, 1).EndWhile().I32(0).Export(abi.ExportRun).Bytes()
	},
	"vectors": func() []byte {
		m := wasmgen.New(0)
		m.Pages = 1000
		return m.While().I32(1).I32(0).I32(8_000_000).I32(8).Call("wasi:fd_write").Op(0x0d, 1).EndWhile().I32(0).
			Export(abi.ExportRun).Bytes()
	},
	"starts": func() []byte { // computes before it is a workflow
		return wasmgen.New(0).I32(0).Export(abi.ExportRun).While().Op(0x41, 0).Op(0x0d, 1).EndWhile().Export(abi.ExportInitialize).Bytes()
	},
	"names": func() []byte {
		return wasmgen.New(1).While().Text(strings.Repeat("n", 60_000)).I64(1).Call(abi.FnSleep).Drop().Op(0x41, 0).Op(0x0d, 1).EndWhile().
			I32(0).Export(abi.ExportRun).Bytes()
	},
	"clocks": func() []byte {
		return wasmgen.New(0).While().Call(abi.FnNow).Drop().Op(0x41, 0).Op(0x0d, 1).EndWhile().I32(0).Export(abi.ExportRun).Bytes()
	},
}

var moduleNames = []string{"memory", "tables", "random", "vectors", "starts", "names", "clocks"}

// attackers by what they do.
var attackers = map[string]attacker{
	"guest":   {200 * time.Millisecond, startGuest},
	"module":  {time.Second, uploadModule},
	"bomb":    {2 * time.Second, uploadBomb},
	"rubbish": {500 * time.Millisecond, uploadRubbish},
	"leaver":  {time.Second, uploadAndLeave},
	"signals": {5 * time.Millisecond, flood},
	"ends":    {time.Second, terminate},
	"strange": {20 * time.Millisecond, strangeRequest},
	"deaf":    {time.Second, readNothing},
	"slow":    {500 * time.Millisecond, sendSlowly},
	"follow":  {500 * time.Millisecond, followOutput},
	"lists":   {100 * time.Millisecond, listRuns},
}

func answer(code int) string {
	if code == 0 {
		return "no answer"
	}
	return fmt.Sprint(code)
}

// oneOf returns any of a list.
func oneOf(r *rand.Rand, list []string) string { return list[r.IntN(len(list))] }

func (h *hour) nextID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started++
	return fmt.Sprint("bad", h.started)
}

func (h *hour) start(ctx context.Context, workflow, id string, input any) int {
	in, _ := json.Marshal(input)
	body, _ := json.Marshal(httpapi.StartRequest{ID: id, Input: in})
	return h.call(ctx, "POST", "/v1/workflows/"+workflow+"/runs", body, nil)
}

func startGuest(ctx context.Context, h *hour, r *rand.Rand) string {
	deed := oneOf(r, deeds)
	return deed + " " + answer(h.start(ctx, "hostile", h.nextID(), deed))
}

func uploadModule(ctx context.Context, h *hour, r *rand.Rand) string {
	name := oneOf(r, moduleNames)
	code := h.call(ctx, "PUT", "/v1/workflows/"+name+"/versions", modules[name](), nil)
	if code >= 300 {
		return name + " upload " + answer(code)
	}
	return name + " " + answer(h.start(ctx, name, h.nextID(), 0))
}

// uploadBomb uploads modules that take long to compile: they have the maximum of branches, loops and calls, or
// slightly more.
func uploadBomb(ctx context.Context, h *hour, r *rand.Rand) string {
	m := wasmgen.New(r.IntN(600))
	kinds := [][]byte{{0x41, 0, 0x04, 0x40, 0x0b}, {0x03, 0x40, 0x0b}, {0x02, 0x40, 0x0b}, {0x41, 0, 0x40, 0, 0x1a},
		{0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 10, 0, 0}, {0x42, 1, 0x42, 2, 0x7e, 0x1a}}
	kind := kinds[r.IntN(len(kinds))]
	code := m.Op(bytes.Repeat(kind, 1<<r.IntN(15))...).I32(0).Export(abi.ExportRun).Bytes()
	return answer(h.call(ctx, "PUT", fmt.Sprintf("/v1/workflows/bomb%d/versions", r.IntN(50)), code, nil))
}

// uploadRubbish uploads modules with some bytes changed.
func uploadRubbish(ctx context.Context, h *hour, r *rand.Rand) string {
	b := modules[oneOf(r, moduleNames)]()
	for range 1 + r.IntN(8) {
		b[r.IntN(len(b))] = byte(r.Uint32())
	}
	return answer(h.call(ctx, "PUT", fmt.Sprintf("/v1/workflows/rubbish%d/versions", r.IntN(50)), b[:1+r.IntN(len(b))], nil))
}

// uploadAndLeave disconnects before the answer comes.
func uploadAndLeave(ctx context.Context, h *hour, r *rand.Rand) string {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(300))*time.Millisecond)
	defer cancel()
	return answer(h.call(ctx, "PUT", "/v1/workflows/left/versions", modules["starts"](), nil))
}

// flood sends signals to runs that do not wait for any, and to honest runs.
func flood(ctx context.Context, h *hour, r *rand.Rand) string {
	to := fmt.Sprint("victim", r.IntN(10))
	if r.IntN(20) == 0 {
		to = fmt.Sprint("honest", r.IntN(*hostileRuns))
	}
	code := h.call(ctx, "POST", "/v1/runs/"+to+"/signals/s", []byte(`"`+strings.Repeat("s", r.IntN(2000))+`"`), nil)
	if code == http.StatusNotFound && strings.HasPrefix(to, "victim") {
		return "start " + answer(h.start(ctx, "hostile", to, "handles"))
	}
	return answer(code)
}

// terminate ends runs that other attackers have started, so that the attack can continue.
func terminate(ctx context.Context, h *hour, r *rand.Rand) string {
	h.mu.Lock()
	n := h.started
	h.mu.Unlock()
	for range 4 {
		h.call(ctx, "POST", fmt.Sprintf("/v1/runs/bad%d/terminate", 1+r.IntN(max(n, 1))), nil, nil)
	}
	return "four"
}

func strangeRequest(ctx context.Context, h *hour, r *rand.Rand) string {
	paths := []string{"/v1/runs", "/v1/runs/../../etc/passwd", "/v1/runs/%00", "/", "/v1/workflows/honest/runs", "/v1/timers?within=x",
		"/v1/runs/honest1/journal?from=-1", "/v1/hooks/nobody", "/v1/backup", "/v1/runs:bulk", "/v1/tokens", "/v1/" + strings.Repeat("a", 5000)}
	req, err := http.NewRequestWithContext(ctx, oneOf(r, []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}),
		"http://"+h.address+oneOf(r, paths), strings.NewReader(strings.Repeat("{", r.IntN(1000))))
	if err != nil {
		return "not made"
	}
	switch r.IntN(5) {
	case 0:
		req.Header.Set("Authorization", "Bearer "+strings.Repeat("t", r.IntN(3000)))
	case 1:
		req.Header.Set("Origin", "https://evil.example")
	case 2:
		req.Host = "evil.example"
	case 3:
		req.Header.Set("X-Large", strings.Repeat("h", r.IntN(1<<20)))
	}
	res, err := h.client.Do(req)
	if err != nil {
		return "no answer"
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20))
	// The frame of the page needs no token: it reveals nothing.
	if res.StatusCode < 300 && req.Header.Get("Authorization") == "" && req.Method != "OPTIONS" && strings.HasPrefix(req.URL.Path, "/v1/") {
		h.Errorf("%s %s was answered without a token", req.Method, req.URL.Path)
	}
	return answer(res.StatusCode)
}

// raw sends the beginning of a request on its own connection and leaves the connection open for a while.
func (h *hour) raw(ctx context.Context, text string) string {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", h.address)
	if err != nil {
		return "refused"
	}
	if _, err := io.WriteString(c, text); err != nil {
		_ = c.Close()
		return "closed"
	}
	time.AfterFunc(time.Minute, func() { _ = c.Close() })
	return "open"
}

func (h *hour) head(method, path string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n", method, path, h.address,
		h.token)
}

// readNothing requests a long answer and does not read it.
func readNothing(ctx context.Context, h *hour, r *rand.Rand) string {
	h.mu.Lock()
	n := h.started
	h.mu.Unlock()
	return h.raw(ctx, h.head("GET", fmt.Sprintf("/v1/runs/bad%d/journal", 1+r.IntN(max(n, 1))))+"\r\n")
}

// sendSlowly starts to send a body, of a start or an upload, that never ends or lacks its last byte.
func sendSlowly(ctx context.Context, h *hour, r *rand.Rand) string {
	start := h.head("POST", "/v1/workflows/honest/runs")
	switch r.IntN(8) {
	case 0, 1:
		return "head " + h.raw(ctx, "GET /v1/runs HTTP/1.1\r\nHost:")
	case 2, 3:
		return "byte " + h.raw(ctx, start+"Content-Length: 1000000\r\n\r\n{")
	case 4, 5, 6:
		return "start " + h.raw(ctx, start+nearly(2*abi.MaxPayloadBytes))
	}
	upload := strings.Replace(h.head("PUT", "/v1/workflows/slow/versions"), "application/json", "application/wasm", 1)
	return "module " + h.raw(ctx, upload+nearly(abi.MaxModuleBytes))
}

// nearly returns the end of a request's head and a body that lacks one byte.
func nearly(length int) string {
	return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", length, strings.Repeat(" ", length-1))
}

func followOutput(ctx context.Context, h *hour, r *rand.Rand) string {
	return h.raw(ctx, h.head("GET", fmt.Sprintf("/v1/runs/honest%d/output?follow=true", r.IntN(*hostileRuns)))+"Accept: text/event-stream\r\n\r\n")
}

func listRuns(ctx context.Context, h *hour, r *rand.Rand) string {
	return answer(h.call(ctx, "GET", oneOf(r, []string{"/v1/runs?limit=1000", "/v1/runs:count", "/v1/timers?limit=1000",
		"/v1/workflows", "/v1/runs?status=sleeping&limit=500", "/v1/runs?workflow=hostile&limit=1000"}), nil, nil))
}
