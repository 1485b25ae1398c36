// Package peer is how the hosts of a cluster reach each other: over their HTTP APIs, with requests that a shared key signs.
package peer

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wfhost/wfhost/store"
)

// Key signs the requests between hosts. It has at least KeyBytes bytes.
type Key []byte

// KeyBytes is the least length of a Key.
const KeyBytes = 32

// Header has the signature of a request: "v1 UNIX-MS FROM CALLER MAC". FROM is the name of the sending host, CALLER what that
// host says of who has called it, both in base64url; MAC is the HMAC-SHA-256 over all of it, the method and the URL's path and
// query, in base64url. It does not cover the body: between machines whose network others can write to, use https.
const Header = "Wfhost-Peer"

// maxAge bounds the age of a signature, by the clocks of two hosts.
const maxAge = time.Minute

func (k Key) mac(r *http.Request, prefix string) string {
	h := hmac.New(sha256.New, k)
	_, _ = fmt.Fprintf(h, "%s\n%s\n%s", prefix, r.Method, r.URL.RequestURI())
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// Sign signs a request, whose URL has only the path and query: the receiver does not see what is before them. from is the name
// of this host, caller a JSON value.
func (k Key) Sign(r *http.Request, now time.Time, from string, caller any) error {
	b, err := json.Marshal(caller)
	if err != nil {
		return err
	}
	e := base64.RawURLEncoding
	prefix := "v1 " + strconv.FormatInt(now.UnixMilli(), 10) + " " + e.EncodeToString([]byte(from)) + " " + e.EncodeToString(b)
	r.Header.Set(Header, prefix+" "+k.mac(r, prefix))
	return nil
}

// Direct sends a request, whose URL has only the path and query, to the host at an address.
func Direct(r *http.Request, address string) error {
	u, err := url.Parse(strings.TrimSuffix(address, "/") + r.URL.RequestURI())
	if err == nil {
		r.URL, r.Host = u, u.Host
	}
	return err
}

// ErrUnsigned: the request has no signature, or a wrong one.
var ErrUnsigned = errors.New("the request is not signed with the key of the cluster")

// Verify returns the host that has signed a request, and stores what it says of the caller in caller. It returns ErrUnsigned if
// the key of a cluster did not sign it, or too long ago.
func (k Key) Verify(r *http.Request, now time.Time, caller any) (from string, err error) {
	parts := strings.Split(r.Header.Get(Header), " ")
	if len(k) < KeyBytes || len(parts) != 5 || parts[0] != "v1" {
		return "", ErrUnsigned
	}
	want := k.mac(r, strings.Join(parts[:4], " "))
	if subtle.ConstantTimeCompare([]byte(want), []byte(parts[4])) == 0 {
		return "", ErrUnsigned
	}
	ms, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || now.Sub(time.UnixMilli(ms)).Abs() > maxAge {
		return "", fmt.Errorf("%w: the clocks of the hosts differ by more than %v", ErrUnsigned, maxAge)
	}
	e := base64.RawURLEncoding
	name, err := e.DecodeString(parts[2])
	if err != nil {
		return "", ErrUnsigned
	}
	b, err := e.DecodeString(parts[3])
	if err != nil {
		return "", ErrUnsigned
	}
	return string(name), json.Unmarshal(b, caller)
}

// Path is where a host is told things.
const Path = "/v1/peer"

// Notice is what a host tells another one.
type Notice struct {
	// Inboxes are partitions of the receiver whose inboxes may have new commands.
	Inboxes []store.PartitionID `json:"inboxes,omitempty"`
	// Offers are handlers for workers, for which the sender has attempts that no worker asks it for.
	Offers []Offer `json:"offers,omitempty"`
	// Given are partitions that the sender has released for the receiver.
	Given []store.PartitionID `json:"given,omitempty"`
	// Beat: the view of the store has changed, so the receiver should beat now.
	Beat bool `json:"beat,omitempty"`
}

// Offer is a handler for workers in a namespace.
type Offer struct {
	Namespace store.NamespaceID `json:"namespace"`
	Handler   string            `json:"handler"`
}

// Notifier tells other hosts things, without waiting for answers. What is lost is found by polling.
type Notifier struct {
	client *http.Client
	sign   func(*http.Request) error

	mu      sync.Mutex
	pending map[string]*Notice // by address; a goroutine sends it
	closed  bool
	wg      sync.WaitGroup
}

// noticeTime bounds the time that one notice takes.
const noticeTime = 2 * time.Second

// NewNotifier returns a notifier. sign signs its requests.
func NewNotifier(client *http.Client, sign func(*http.Request) error) *Notifier {
	return &Notifier{client: client, sign: sign, pending: map[string]*Notice{}}
}

// Close waits for what is in flight, for at most a few seconds.
func (n *Notifier) Close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.wg.Wait()
}

// Tell tells the host at an address something. It does not block. While a notice is in flight to the host, further ones are
// joined.
func (n *Notifier) Tell(address string, x Notice) {
	if address == "" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	waiting := n.pending[address]
	if waiting == nil {
		n.pending[address] = &x
		n.wg.Go(func() { n.send(address) })
		return
	}
	waiting.Beat = waiting.Beat || x.Beat
	waiting.Inboxes = joined(waiting.Inboxes, x.Inboxes)
	waiting.Offers = joined(waiting.Offers, x.Offers)
	waiting.Given = joined(waiting.Given, x.Given)
}

func joined[T comparable](to, more []T) []T {
	for _, x := range more {
		if !slices.Contains(to, x) {
			to = append(to, x)
		}
	}
	return to
}

// send sends what is pending for an address until nothing is.
func (n *Notifier) send(address string) {
	for {
		n.mu.Lock()
		x := *n.pending[address]
		if !x.Beat && len(x.Inboxes)+len(x.Offers)+len(x.Given) == 0 {
			delete(n.pending, address)
			n.mu.Unlock()
			return
		}
		*n.pending[address] = Notice{}
		n.mu.Unlock()
		n.post(address, x)
	}
}

func (n *Notifier) post(address string, x Notice) {
	ctx, cancel := context.WithTimeout(context.Background(), noticeTime)
	defer cancel()
	b, err := json.Marshal(x)
	if err != nil {
		return
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, Path, bytes.NewReader(b))
	if err != nil || n.sign(r) != nil || Direct(r, address) != nil {
		return
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := n.client.Do(r)
	if err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<12))
		_ = answer.Body.Close()
	}
}
