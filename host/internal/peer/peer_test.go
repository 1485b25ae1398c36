package peer

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wfhost/wfhost/store"
)

var key = Key(strings.Repeat("k", KeyBytes))

type caller struct{ Name string }

func signed(t *testing.T, method, uri string, now time.Time) *http.Request {
	t.Helper()
	r := httptest.NewRequest(method, uri, nil)
	if err := key.Sign(r, now, "host-ä", caller{"token 7"}); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestVerify accepts a signed request, and none that was changed, is old, or was signed with another key.
func TestVerify(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	var c caller
	from, err := key.Verify(signed(t, "POST", "/v1/runs/a%2Fb?x=1", now), now.Add(maxAge), &c)
	if err != nil || from != "host-ä" || c.Name != "token 7" {
		t.Fatal(from, c, err)
	}
	for name, change := range map[string]func(r *http.Request) (Key, time.Time){
		"method":     func(r *http.Request) (Key, time.Time) { r.Method = "PUT"; return key, now },
		"path":       func(r *http.Request) (Key, time.Time) { r.URL.Path, r.URL.RawPath = "/v1/runs/c", ""; return key, now },
		"query":      func(r *http.Request) (Key, time.Time) { r.URL.RawQuery = "x=2"; return key, now },
		"old":        func(*http.Request) (Key, time.Time) { return key, now.Add(maxAge + time.Millisecond) },
		"of later":   func(*http.Request) (Key, time.Time) { return key, now.Add(-maxAge - time.Millisecond) },
		"key":        func(*http.Request) (Key, time.Time) { return Key(strings.Repeat("x", KeyBytes)), now },
		"no key":     func(*http.Request) (Key, time.Time) { return nil, now },
		"unsigned":   func(r *http.Request) (Key, time.Time) { r.Header.Del(Header); return key, now },
		"empty":      func(r *http.Request) (Key, time.Time) { r.Header.Set(Header, "v1    "); return key, now },
		"of another": func(r *http.Request) (Key, time.Time) { swap(r, 2); return key, now },
		"caller":     func(r *http.Request) (Key, time.Time) { swap(r, 3); return key, now },
		"time":       func(r *http.Request) (Key, time.Time) { swap(r, 1); return key, now },
	} {
		r := signed(t, "POST", "/v1/runs/a%2Fb?x=1", now)
		k, at := change(r)
		if _, err := k.Verify(r, at, &c); !errors.Is(err, ErrUnsigned) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// swap changes a part of the signature.
func swap(r *http.Request, part int) {
	parts := strings.Split(r.Header.Get(Header), " ")
	parts[part] = "1" + parts[part][1:] + "0"
	r.Header.Set(Header, strings.Join(parts, " "))
}

// TestNotifier tells a host many things while it is slow: it learns all, by few requests, below the prefix of its address.
func TestNotifier(t *testing.T) {
	var got []Notice
	free := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/flows"+Path {
			t.Error(r.URL.Path)
		}
		r.URL.Path = Path
		var c caller
		if _, err := key.Verify(r, time.UnixMilli(0), &c); err != nil {
			t.Error(err)
		}
		var n Notice
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
			t.Error(err)
		}
		got = append(got, n)
		<-free
	}))
	defer server.Close()
	n := NewNotifier(server.Client(), func(r *http.Request) error { return key.Sign(r, time.UnixMilli(0), "a", nil) })
	n.Tell("", Notice{Beat: true})
	n.Tell("http://127.0.0.1:1", Notice{Beat: true}) // nobody is there
	for i := range 100 {
		n.Tell(server.URL+"/flows/", Notice{Inboxes: []store.PartitionID{store.PartitionID(i % 7)}, Beat: i == 50,
			Offers: []Offer{{Handler: "h"}}})
	}
	close(free)
	n.Close()
	var all Notice
	for _, x := range got {
		all.Inboxes, all.Beat = joined(all.Inboxes, x.Inboxes), all.Beat || x.Beat
		all.Offers = joined(all.Offers, x.Offers)
	}
	slices.Sort(all.Inboxes)
	if len(got) > 3 || !slices.Equal(all.Inboxes, []store.PartitionID{0, 1, 2, 3, 4, 5, 6}) || !all.Beat || len(all.Offers) != 1 {
		t.Fatal(got)
	}
	n.Tell(server.URL, Notice{Beat: true}) // after Close
}
