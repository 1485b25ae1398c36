package examples_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/hosttest"
	"github.com/wfhost/wfhost/store"
)

// shop is a payment and courier service that knows its requests by their idempotency keys, and misbehaves.
type shop struct {
	mu      sync.Mutex
	effects map[string]string // answer by path and key
	trouble map[string][]int  // statuses that a path answers before it behaves
	lose    map[string]bool   // the effect of a path happens and its first answer is lost
	after   string            // the Retry-After of trouble; "" is 7 seconds
	calls   int
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if r.Header.Get("Authorization") != "Bearer s3cr3t" {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	if codes := s.trouble[r.URL.Path]; len(codes) > 0 {
		s.trouble[r.URL.Path] = codes[1:]
		w.Header().Set("Retry-After", cmp.Or(s.after, "7"))
		http.Error(w, "trouble", codes[0])
		return
	}
	key := r.URL.Path + " " + r.Header.Get("Idempotency-Key")
	if s.effects[key] == "" {
		s.effects[key] = fmt.Sprintf("%s-%d", strings.Trim(r.URL.Path, "/"), len(s.effects)+1)
	}
	if s.lose[r.URL.Path] {
		s.lose[r.URL.Path] = false
		panic(http.ErrAbortHandler) // the connection breaks
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"ID": s.effects[key]}) // the client is gone
}

func (s *shop) done(path string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.effects {
		if strings.HasPrefix(key, path+" ") {
			n++
		}
	}
	return n
}

func TestOrders(t *testing.T) { testOrders(t, hosttest.Build(t, "orders")) }

// testOrders tests the workflow orders of a module.
func testOrders(t *testing.T, wasm []byte) {
	ctx := context.Background()
	start := func(t *testing.T, s *shop, opts ...host.UploadOption) (*hosttest.Host, string) {
		service := httptest.NewServer(s)
		t.Cleanup(service.Close)
		h := hosttest.New(t, hosttest.WithConfig(func(c *host.Config) {
			c.Secrets = func(name string) (string, bool) { return "s3cr3t", name == "SHOP" }
		}))
		if opts == nil {
			opts = []host.UploadOption{host.AllowHTTP(service.URL), host.AllowSecret("SHOP", service.URL, "Authorization")}
		}
		if _, err := h.Upload(ctx, "orders", wasm, opts...); err != nil {
			t.Fatal(err)
		}
		r, err := h.Start(ctx, "orders", map[string]any{"Service": service.URL, "Item": "book", "Cents": 1200})
		if err != nil {
			t.Fatal(err)
		}
		return h, r.ID
	}
	t.Run("in trouble", func(t *testing.T) {
		s := &shop{effects: map[string]string{}, lose: map[string]bool{"/charges": true, "/parcels": true},
			trouble: map[string][]int{"/charges": {500, 429}, "/parcels": {503}}}
		h, id := start(t, s)
		h.Finish(id)
		got, err := h.ResultRaw(ctx, id)
		if err != nil || string(got) != `{"Charge":"charges-1","Parcel":"parcels-2"}` {
			t.Fatal(string(got), err)
		}
		if s.done("/charges") != 1 || s.done("/parcels") != 1 || s.done("/refunds") != 0 || s.calls != 7 {
			t.Fatalf("%v after %d calls", s.effects, s.calls)
		}
		for e, err := range h.Journal(ctx, id, 0) {
			if err != nil || strings.Contains(string(e.Data)+string(e.Input), "s3cr3t") {
				t.Fatalf("entry %d holds the secret: %s %v", e.Seq, e.Data, err)
			}
		}
		if waited := h.Clock.Now().Sub(hosttest.Epoch); waited.Seconds() < 21 { // 7 s for each answer that says so
			t.Fatalf("only %v passed", waited)
		}
	})
	t.Run("busy until a date", func(t *testing.T) {
		s := &shop{effects: map[string]string{}, trouble: map[string][]int{"/charges": {503, 429}}, after: "Wed, 21 Oct 2099 07:28:00 GMT"}
		h, id := start(t, s)
		if r := h.Finish(id); r.Status != host.Completed {
			t.Fatal(r.Status)
		}
		backedOff(t, h, id)
	})
	t.Run("busy for ages", func(t *testing.T) {
		s := &shop{effects: map[string]string{}, trouble: map[string][]int{"/charges": {503, 429}}, after: "999999999999"}
		h, id := start(t, s)
		r := h.Finish(id)
		if waited := h.Clock.Now().Sub(hosttest.Epoch); r.Status != host.Completed || waited < 3*time.Second || waited > 2*365*day {
			t.Fatal(r.Status, waited)
		}
	})
	t.Run("no courier", func(t *testing.T) {
		s := &shop{effects: map[string]string{}, lose: map[string]bool{}, trouble: map[string][]int{"/parcels": {404}}}
		h, id := start(t, s)
		if r := h.Finish(id); r.Status != host.Failed || s.done("/refunds") != 1 {
			t.Fatalf("%s, %v", r.Status, s.effects)
		}
	})
	t.Run("not allowed", func(t *testing.T) {
		s := &shop{effects: map[string]string{}}
		h, id := start(t, s, host.AllowHTTP("api.example.com"))
		_, err := func() ([]byte, error) { h.Finish(id); return h.ResultRaw(ctx, id) }()
		if err == nil || !strings.Contains(err.Error(), "not allowed") || s.calls != 0 {
			t.Fatal(err, s.calls)
		}
		for e, err := range h.Journal(ctx, id, 0) { // it is not tried again
			if err != nil || e.Kind == store.KindStepFailure && e.Attempt != 1 || e.Kind == store.KindAttemptFailed {
				t.Fatal(e, err)
			}
		}
	})
}

// backedOff checks that a run, whose charge was refused twice until a date, has waited as its back-off says.
func backedOff(t *testing.T, h *hosttest.Host, id string) {
	t.Helper()
	var failed []string
	for e, err := range h.Journal(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == store.KindAttemptFailed {
			failed = append(failed, string(e.Data))
		}
	}
	if len(failed) != 2 || !strings.Contains(failed[0], "503") || !strings.Contains(failed[1], "429") {
		t.Errorf("the attempts have failed with %q", failed)
	}
	if waited := h.Clock.Now().Sub(hosttest.Epoch); waited != 3*time.Second { // 1 s and 2 s
		t.Errorf("it waited %v", waited)
	}
}
