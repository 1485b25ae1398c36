package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

// counted returns a body that counts for a caller.
func (b *bodies) counted(caller string) *timed {
	rec := httptest.NewRecorder()
	return &timed{control: http.NewResponseController(rec), header: rec.Header(), share: share{in: b, from: caller}}
}

// TestBodies receives bodies from three callers. A caller with too many bytes loses the body that has stalled
// longest, and there is always room for the next caller.
func TestBodies(t *testing.T) {
	const unit = 1 << 20
	b := newBodies(60 * unit)
	var stands []*timed
	for range 4 {
		x := b.counted("one")
		for range 10 {
			if err := x.came(unit, false); err != nil {
				t.Fatal(err)
			}
		}
		stands = append(stands, x)
	}
	more := b.counted("one")
	if err := more.came(smallBody, false); err != nil || b.bytes != 40*unit {
		t.Fatalf("a small body: %v, %d bytes", err, b.bytes)
	}
	if err := more.came(1, false); err != nil || !stands[0].cut || stands[1].cut || b.bytes != 30*unit+smallBody+1 {
		t.Fatalf("two thirds of all are held, and one byte more comes: %v, %d bytes", err, b.bytes)
	}
	p, _ := errors.AsType[*Problem](stands[0].came(1, false))
	if p == nil || p.Status != http.StatusTooManyRequests || stands[0].header.Get("Retry-After") != "1" {
		t.Errorf("the one that was cut off: %v %v", p, stands[0].header)
	}
	for i, most := range []int{19, 7} { // of what is left two thirds
		x := b.counted(fmt.Sprint("other", i))
		for n := range most {
			if err := x.came(unit, false); err != nil {
				t.Fatalf("caller %d after %d of %d: %v", i+2, n, most, err)
			}
		}
		if err := x.came(unit, true); err == nil || !x.cut {
			t.Errorf("caller %d has more than %d of %d", i+2, most, b.bytes)
		}
		next := b.counted(x.from)
		if err := next.came(most*unit, true); err != nil {
			t.Fatal(err)
		}
		if err := next.came(0, true); err != nil || next.held != most*unit { // who reads again
			t.Error(err, next.held)
		}
		stands = append(stands, next)
	}
	for _, x := range append(stands, more) {
		b.remove(x)
	}
	if b.bytes != 0 || len(b.by) != 0 || len(b.coming) != 0 {
		t.Errorf("left over: %d bytes, %v, %d bodies", b.bytes, b.by, len(b.coming))
	}
}

// TestBodiesThatStand has one caller use its whole share, and another one send: stalled bodies are cut off for it,
// active and complete ones are not.
func TestBodiesThatStand(t *testing.T) {
	const unit = 1 << 20
	b, now := newBodies(60*unit), time.Unix(0, 0)
	b.now = func() time.Time { return now }
	whole, stands, comes := b.counted("one"), b.counted("one"), b.counted("one")
	if err := errors.Join(whole.came(10*unit, true), stands.came(18*unit, false), comes.came(10*unit, false)); err != nil {
		t.Fatal(err)
	}
	second := b.counted("two")
	if err := second.came(15*unit, false); err == nil || stands.cut {
		t.Fatalf("beside bodies that came a moment ago: %v", err)
	}
	now = now.Add(standsStill - 1)
	if err := errors.Join(stands.came(smallBody-1, false), comes.came(smallBody, false)); err != nil {
		t.Fatal(err)
	}
	now = now.Add(1)
	third := b.counted("two")
	if err := third.came(15*unit, false); err != nil || !stands.cut || comes.cut || whole.cut {
		t.Fatalf("beside one that stands still: %v, it is cut off: %v; one that comes: %v", err, stands.cut, comes.cut)
	}
	now = now.Add(2 * standsStill)
	if err := third.came(2*unit, false); err != nil || comes.cut { // 35 of 60 units are used, so there is room
		t.Fatalf("without need: %v %v", err, comes.cut)
	}
	if err := third.came(15*unit, false); err == nil || comes.cut || !third.cut { // 32 and 20 of 60
		t.Errorf("one who holds less was cut off for one who holds more: %v %v", err, comes.cut)
	}
	if b.bytes != 20*unit+smallBody {
		t.Errorf("%d bytes are held", b.bytes)
	}
}

// TestUsedBody: a body that was read no longer counts while its request goes on.
func TestUsedBody(t *testing.T) {
	b := newBodies(maxBodies)
	x := b.counted("one")
	leave := b.enter(&http.Request{Body: x}, "one")
	if err := x.came(1<<20, true); err != nil || b.bytes != 1<<20 {
		t.Fatal(err, b.bytes)
	}
	used(context.WithValue(t.Context(), bodyKey{}, x))
	if b.bytes != 0 || len(b.by) != 0 {
		t.Errorf("%d bytes are held", b.bytes)
	}
	if leave(); b.bytes != 0 || len(b.by) != 0 {
		t.Errorf("%d bytes are held at the end", b.bytes)
	}
	used(t.Context())
}

// TestBodiesAtRandom begins, continues and ends bodies at random: they never exceed the limit, and nothing is left at
// the end.
func TestBodiesAtRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := newBodies(maxBodies)
	var all []*timed
	var leave []func()
	cuts := 0
	for range 100_000 {
		if r.IntN(10) == 0 || len(all) == 0 {
			x := b.counted("")
			req := &http.Request{Body: x}
			leave = append(leave, b.enter(req, "an address"))
			sentBy(req, &caller{name: fmt.Sprint(r.IntN(5)), Token: host.Token{Namespace: []string{"", "n"}[r.IntN(2)]}})
			all = append(all, x)
		}
		i := r.IntN(len(all))
		if all[i].came(r.IntN(1<<r.IntN(22)), r.IntN(20) == 0) != nil || r.IntN(10) == 0 {
			if all[i].cut {
				cuts++
			}
			leave[i]()
			all[i], leave[i] = all[len(all)-1], leave[len(all)-1]
			all, leave = all[:len(all)-1], leave[:len(all)-1]
		}
		if b.bytes > b.limit {
			t.Fatalf("%d bytes are held", b.bytes)
		}
	}
	for _, f := range leave {
		f()
	}
	if b.bytes != 0 || len(b.by) != 0 || len(b.coming) != 0 || cuts == 0 {
		t.Errorf("left over: %d bytes, %v, %d bodies; %d were cut off", b.bytes, b.by, len(b.coming), cuts)
	}
}

// send sends a request with an incomplete body, and returns the answer; 0 and "" if there is none.
func send(c net.Conn, token, target string, length int, body []byte) (int, Problem) {
	var p Problem
	go func() {
		_, _ = fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n", target, token, length)
		_, _ = c.Write(body) // the server may have answered before
	}()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, p
	}
	_ = json.NewDecoder(res.Body).Decode(&p)
	_ = res.Body.Close() // the connection is not used again
	return res.StatusCode, p
}

// TestBodiesThatDoNotEnd makes two hundred connections that each send a body of two MiB without its last byte. About
// forty MiB are kept, and other requests work as before, including those of the same caller.
func TestBodiesThatDoNotEnd(t *testing.T) {
	const length = maxBodyBytes
	clients := 200
	if testing.Short() { // the race detector takes so long to receive all that some come to the time limit of requests
		clients = 60
	}
	const fit = maxBodies * timesLeft / (timesLeft + 1) / (length - 1)
	a := newAPI(t, Access{})
	a.upload("a", "w", nap())
	a.upload("b", "w", nap())
	run := func(namespace string) string {
		return a.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRun}, Namespace: namespace})
	}
	tokens := []string{run("a"), run("a")}
	s := httptest.NewServer(a.API)
	defer s.Close()
	var conns []net.Conn
	dial := func() net.Conn {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		return c
	}
	defer func() { // before the server waits for them
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	body := bytes.Repeat([]byte(" "), length-1)
	done := make(chan int, clients)
	for range clients {
		dial()
	}
	for i, c := range conns {
		go func() {
			status, p := send(c, tokens[i%2], "POST /v1/workflows/w/runs?namespace=a", length, body)
			if status != 0 && (status != http.StatusTooManyRequests || p.Code != "busy" || !strings.Contains(p.Detail, "no room for this body")) {
				t.Errorf("%d %+v", status, p)
			}
			done <- status
		}()
	}
	told := 0
	for range clients - fit {
		if <-done != 0 {
			told++
		}
	}
	if told < (clients-fit)/2 { // the others were still sending when their connections were cut
		t.Errorf("%d of %d were told why", told, clients-fit)
	}
	a.bodies.mu.Lock()
	held, coming := a.bodies.bytes, len(a.bodies.coming)
	a.bodies.mu.Unlock()
	if held > maxBodies || coming > fit {
		t.Errorf("%d bodies hold %d bytes", coming, held)
	}
	if grown := heap() - before; grown > 4*maxBodies { // their buffers are up to twice as large, and have grown by copying
		t.Errorf("they hold %d MiB", grown>>20)
	}
	start := func(id string) []byte {
		return fmt.Appendf(nil, `{"id":%q,"input":%q}`, id, strings.Repeat("x", abi.MaxPayloadBytes/2))
	}
	for namespace, token := range map[string]string{"b": run("b"), "a": tokens[0]} {
		whole := start(namespace)
		if status, p := send(dial(), token, "POST /v1/workflows/w/runs?namespace="+namespace, len(whole), whole); status != http.StatusCreated {
			t.Errorf("a start in %s: %d %+v", namespace, status, p)
		}
	}
	for _, c := range conns {
		_ = c.Close()
	}
	s.Close()
	if b := a.bodies; b.bytes != 0 || len(b.by) != 0 || len(b.coming) != 0 {
		t.Errorf("left over: %d bytes, %v, %d bodies", b.bytes, b.by, len(b.coming))
	}
}

// TestBodiesOfImports sends a body that exceeds the limit of all bodies: the body of an import is written to disk.
func TestBodiesOfImports(t *testing.T) {
	a := newAPI(t, Access{})
	a.bodies = newBodies(smallBody)
	body := strings.Repeat("x", 4*smallBody)
	a.is(a.call(local, http.MethodPost, "/v1/runs:import", body, "Content-Type", archiveType), http.StatusBadRequest, "invalid")
	a.is(a.call(local, http.MethodPost, "/v1/runs/r/signals/s", body), http.StatusTooManyRequests, "busy")
	p := newPage(t, Access{})
	session := p.login(p.token(host.TokenSpec{Scopes: []host.Scope{host.ScopeRun}}))
	p.bodies = newBodies(smallBody)
	w := p.browse(session, http.MethodPost, "/workflows/w/start", url.Values{"input": {body}})
	if w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "no room for this body") {
		t.Errorf("a form of the page: %d %s", w.Code, w.Body)
	}
}
