package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// scripted is a server with answers scripted by a test, and a client whose pauses take no time.
type scripted struct {
	*Client
	answers  []func(http.ResponseWriter, *http.Request)
	requests []*http.Request
	waited   []time.Duration
	away     []error
}

func script(t *testing.T, answers ...func(http.ResponseWriter, *http.Request)) *scripted {
	t.Helper()
	s := &scripted{answers: answers}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests = append(s.requests, r)
		if len(s.answers) == 0 {
			t.Errorf("%s %s is one request too many", r.Method, r.URL)
			return
		}
		next := s.answers[0]
		s.answers = s.answers[1:]
		next(w, r)
	}))
	t.Cleanup(server.Close)
	var err error
	s.Client, err = New(server.URL+"/", WithAway(func(err error) { s.away = append(s.away, err) }))
	if err != nil {
		t.Fatal(err)
	}
	s.wait = func(ctx context.Context, d time.Duration) error {
		s.waited = append(s.waited, d)
		return ctx.Err()
	}
	return s
}

func says(status int, body string, header ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}
}

func refuses(status int, code string, header ...string) func(http.ResponseWriter, *http.Request) {
	return says(status, fmt.Sprintf(`{"detail":"no: %s","code":%q}`, code, code), header...)
}

// breaks cuts the connection, so the client cannot know whether the request was carried out.
func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// TestPatience retries requests that had no effect. It retries others only if they are idempotent.
func TestPatience(t *testing.T) {
	run := says(http.StatusOK, `{"id":"r"}`)
	for _, c := range []struct {
		name    string
		answers []func(http.ResponseWriter, *http.Request)
		do      func(*Client) error
		want    error // nil: the last answer
		away    bool
	}{
		{"a read of a server that drains", answers(refuses(503, "draining"), refuses(502, ""), breaks, run), reads, nil, true},
		{"a start without an id", answers(breaks, refuses(503, "store_failed"), run), starts, nil, true},
		{"a start that ends another run", answers(breaks), replaces, ErrAway, false},
		{"the same while the server drains", answers(refuses(503, "draining"), run), replaces, nil, true},
		{"the same of a server that has failed", answers(refuses(503, "store_failed")), replaces, ErrAway, false},
		{"a wake that may have been", answers(breaks), wakes, ErrAway, false},
		{"a wake of a server that is busy", answers(refuses(429, "busy", "Retry-After", "3"), run), wakes, nil, true},
		{"what is no use to repeat", answers(refuses(404, "not_found")), reads, ErrNotFound, false},
		{"a disk that is full", answers(refuses(507, "disk_full")), reads, ErrBusy, false},
		{"no room for another stream", answers(refuses(503, "busy"), run), wakes, nil, true},
		{"a proxy", answers(says(404, "<html>")), reads, ErrNotFound, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := script(t, c.answers...)
			if err := c.do(s.Client); !errors.Is(err, c.want) {
				t.Errorf("the error is %v", err)
			}
			if len(s.answers) > 0 {
				t.Errorf("it was tried %d times", len(s.requests))
			}
			if (len(s.away) == 2 && s.away[0] != nil && s.away[1] == nil) != c.away {
				t.Errorf("said is %v", s.away)
			}
			for _, r := range s.requests[1:] {
				if r.Header.Get("Idempotency-Key") != s.requests[0].Header.Get("Idempotency-Key") {
					t.Error("repeated with another key")
				}
			}
		})
	}
}

func answers(list ...func(http.ResponseWriter, *http.Request)) []func(http.ResponseWriter, *http.Request) {
	return list
}

func reads(c *Client) error {
	_, err := c.Get(context.Background(), "r")
	return err
}

func starts(c *Client) error {
	_, err := c.Start(context.Background(), "w", nil, StartOptions{})
	return err
}

func replaces(c *Client) error {
	_, err := c.Start(context.Background(), "w", nil, StartOptions{ID: "r", OnConflict: ConflictReplace})
	return err
}

func wakes(c *Client) error {
	_, err := c.Wake(context.Background(), "r", "")
	return err
}

// Pauses grow, are as long as the server asks for, and stop when the patience is used up or the context ends.
func TestPauses(t *testing.T) {
	busy := refuses(503, "draining")
	s := script(t, slices.Repeat(answers(busy), 100)...)
	if err := reads(s.Client); !errors.Is(err, ErrAway) {
		t.Error(err)
	}
	sum := time.Duration(0)
	for _, d := range s.waited {
		sum += d
	}
	if s.waited[0] != firstPause || s.waited[1] != 2*firstPause || sum > DefaultPatience || sum < DefaultPatience/2 {
		t.Errorf("it waited %v", s.waited)
	}
	s = script(t, refuses(429, "busy", "Retry-After", "7"), refuses(429, "busy", "Retry-After", "7"))
	if err := reads(s.Client); !errors.Is(err, ErrBusy) || !slices.Equal(s.waited, []time.Duration{7 * time.Second}) {
		t.Errorf("it waited %v: %v", s.waited, err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	enough := errors.New("enough")
	s = script(t, func(w http.ResponseWriter, r *http.Request) {
		cancel(enough)
		busy(w, r)
	})
	if _, err := s.Get(ctx, "r"); !errors.Is(err, enough) {
		t.Error("after the end of its context:", err)
	}
}

// A stream that breaks is continued after its last event. It fails only when no more events come.
func TestFollowAgain(t *testing.T) {
	stream := func(text string) func(http.ResponseWriter, *http.Request) {
		return says(200, text, "Content-Type", "text/event-stream")
	}
	s := script(t, stream(": nothing new\n\nid: 0.3\nevent: entry\ndata: {\"seq\":3}\n\nid: 0.4\nevent: entry\ndata: {\"se"),
		refuses(503, "draining"), stream(""), stream("id: 0.4\nevent: entry\ndata: {\"seq\":\ndata: 4}\n\n: there\n\nevent: end\ndata: {}\n\n"))
	var seqs []uint64
	for e, err := range s.FollowJournal(context.Background(), "r", Newest, 3) {
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, e.Seq)
	}
	if !slices.Equal(seqs, []uint64{3, 4}) {
		t.Errorf("the entries are %v", seqs)
	}
	var from []string
	for _, r := range s.requests {
		from = append(from, r.Header.Get("Last-Event-ID"))
	}
	if !slices.Equal(from, []string{"", "0.3", "0.3", "0.3"}) || len(s.away) != 2 {
		t.Errorf("it went on behind %q, and said %v", from, s.away)
	}
	s = script(t, slices.Repeat(answers(stream("")), 1000)...)
	for _, err := range s.FollowRun(context.Background(), "r") {
		if !errors.Is(err, ErrAway) {
			t.Error(err)
		}
	}
	if n := len(s.requests); n < 100 || n > 300 {
		t.Error("it connected", n, "times")
	}
	s = script(t, stream("event: error\ndata: {\"detail\":\"it was deleted\",\"code\":\"not_found\"}\n\n"))
	for _, err := range s.FollowRun(context.Background(), "r") {
		if !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	}
	for stuck, want := range map[string]int{"run": 2, "log": 1} {
		text := "event: %s\ndata: {}\n\nevent: stuck\ndata: {}\n\nevent: %s\ndata: {}\n\nevent: end\ndata: {}\n\n"
		s, n := script(t, stream(fmt.Sprintf(text, stuck, stuck))), 0
		if stuck == "run" {
			for range s.FollowRun(context.Background(), "r") {
				n++
			}
		} else {
			for range s.FollowLogs(context.Background(), "r", 0) {
				n++
			}
		}
		if n != want {
			t.Errorf("%d of %s came", n, stuck)
		}
	}
	s = script(t, stream("event: run\ndata: {\"id\":7}\n\n"))
	for _, err := range s.FollowRun(context.Background(), "r") {
		if err == nil || !strings.Contains(err.Error(), "cannot be read") {
			t.Error(err)
		}
	}
}

// Bad addresses, answers and payloads fail with a sentence.
func TestSentences(t *testing.T) {
	for _, address := range []string{"", "flows.example.com", "localhost:7777", "ftp://x", "http://", "http://u:secret@x", "http://x?y=z"} {
		if _, err := New(address); err == nil || !strings.Contains(err.Error(), "the address of the server must") ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
	s := script(t, says(200, "<html>"))
	if err := reads(s.Client); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Error(err)
	}
	if _, err := s.Start(context.Background(), "w", func() {}, StartOptions{}); err == nil || len(s.requests) > 1 {
		t.Error("an input that is no JSON:", err)
	}
	s = script(t)
	s.token = func() (string, error) { return "", errors.New("no token") }
	if err := reads(s.Client); err == nil || err.Error() != "no token" {
		t.Error(err)
	}
	c, err := New("http://127.0.0.1:1", WithPatience(0)) // where nobody listens
	if err != nil {
		t.Fatal(err)
	}
	if err := reads(c); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), "no answer from http://127.0.0.1:1") {
		t.Error(err)
	}
}

// Requests are as the API wants them.
func TestRequests(t *testing.T) {
	s := script(t, func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		if r.Header.Get("Content-Type") != "application/json" || body["input"] != "<&>" || body["in"] != "1h30m" || body["id"] == "" {
			t.Errorf("the body is %v", body)
		}
		says(201, `{}`)(w, r)
	}, says(200, "{}"), says(204, ""))
	if _, err := s.Start(context.Background(), "a/b", "<&>", StartOptions{In: 90 * time.Minute}); err != nil {
		t.Error(err)
	}
	s.namespace = "team"
	if _, err := s.Get(context.Background(), ".."); err != nil {
		t.Error(err)
	}
	if err := s.Delete(context.Background(), "a b/c"); err != nil {
		t.Error(err)
	}
	for i, want := range []string{"/v1/workflows/a%2Fb/runs", "/v1/runs/%2E%2E?namespace=team", "/v1/runs/a%20b%2Fc?namespace=team"} {
		if got := s.requests[i].RequestURI; got != want {
			t.Errorf("the request is for %s, want %s", got, want)
		}
	}
}
