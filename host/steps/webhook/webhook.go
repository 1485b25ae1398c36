// Package webhook posts the attempts of a handler to the URL of a service. The requests are signed as in Standard
// Webhooks, so that the service can verify the caller. Services that cannot be called use package worker.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
)

// Limits.
const (
	// MinSecretBytes is the minimum length of a secret: Standard Webhooks asks for 24 bytes.
	MinSecretBytes = 24
	// maxSecrets bounds the number of valid secrets: the new and the old one, and two for mistakes.
	maxSecrets = 4
	// maxHeaderBytes bounds the head of an answer.
	maxHeaderBytes = 64 << 10
	// maxProblemBytes bounds how much of a failed answer is read, and maxDetail how much of it is recorded.
	maxProblemBytes, maxDetail = 64 << 10, 1000
	// maxRetryAfter is the maximum Retry-After: a year.
	maxRetryAfter = 365 * 24 * time.Hour
	// idleConnections is the number of connections to the service that are kept open; as many calls of one handler are
	// in flight at a time.
	idleConnections = 64
)

// Config configures where attempts are posted.
type Config struct {
	// URL is https, or http for services on this machine or on a network that the operator trusts. It may name a
	// loopback or private address.
	URL string
	// Secrets returns the secrets that sign requests, each as text: whsec_ and base64, or at least MinSecretBytes.
	// Each request has one signature per secret, so that a service can accept the new and the old secret during a
	// change. It is called for each attempt.
	Secrets func() ([]string, error)
	// Client makes the requests. Default: a client that verifies certificates, follows no redirects, and uses no
	// proxy.
	Client *http.Client
}

// Attempt is the body of a request.
type Attempt struct {
	Type           string    `json:"type"` // wfhost.attempt
	Handler        string    `json:"handler"`
	Namespace      string    `json:"namespace"` // empty: the default namespace
	Run            string    `json:"run"`
	Workflow       string    `json:"workflow"`
	Version        uint32    `json:"version"`
	Step           string    `json:"step"`
	Attempt        int       `json:"attempt"`  // from 1
	Attempts       int       `json:"attempts"` // maximum; 0 = unlimited
	AtMostOnce     bool      `json:"at_most_once"`
	IdempotencyKey string    `json:"idempotency_key"` // the same for all attempts of the step
	Deadline       time.Time `json:"deadline"`        // the host does not wait for the answer after it
	TraceParent    string    `json:"traceparent"`
	// Input is present if it is JSON; otherwise InputBase64 is, unless the input is empty.
	Input       json.RawMessage `json:"input,omitempty"`
	InputBase64 []byte          `json:"input_base64,omitempty"`
}

// Register registers a handler whose attempts are posted. It makes no request. It returns ErrInvalid for a URL that
// cannot be called, and for secrets that cannot be read or are too short.
func Register(h *host.Host, name string, c Config) error {
	if err := abi.CheckHandler(abi.HandlerPrefix + name); err != nil || name == "" {
		return fmt.Errorf("%w: the name of the handler %.300q: %w", host.ErrInvalid, name, errors.Join(err, errEmpty(name)))
	}
	if err := checkURL(c.URL); err != nil {
		return fmt.Errorf("%w: handler %q: %w", host.ErrInvalid, name, err)
	}
	s := &service{name: name, url: c.URL, secrets: c.Secrets, client: c.Client}
	if _, err := s.keys(); err != nil {
		return fmt.Errorf("%w: handler %q: %w", host.ErrInvalid, name, err)
	}
	if s.client == nil {
		s.client = &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, MaxResponseHeaderBytes: maxHeaderBytes,
			MaxIdleConnsPerHost: idleConnections, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second}}
	}
	client := *s.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // attempts are for this URL
	s.client = &client
	h.HandleRawStep(name, s.perform)
	return nil
}

// checkURL returns an error for an invalid URL. The error shows no password.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil: // its text has the URL, and a password may be anywhere in it
		return errors.New("what it is called by is no URL such as https://pay.internal/charge")
	case u.User != nil:
		return fmt.Errorf("it is called by a URL without a user, got %.300q: a service verifies the signature", u.Redacted())
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Fragment != "":
		return fmt.Errorf("it is called by a URL such as https://pay.internal/charge, http or https, without a fragment, got %.300q",
			text)
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("the port of its URL is from 1 to 65535, got %s", p)
		}
	}
	return nil
}

func errEmpty(name string) error {
	if name == "" {
		return errors.New("it is empty")
	}
	return nil
}

// service is a handler that posts its attempts.
type service struct {
	name, url string
	secrets   func() ([]string, error)
	client    *http.Client
}

// keys returns the keys of the secrets.
func (s *service) keys() ([][]byte, error) {
	if s.secrets == nil {
		return nil, errors.New("there is no secret to sign with")
	}
	list, err := s.secrets()
	if err != nil {
		return nil, err
	}
	if len(list) == 0 || len(list) > maxSecrets {
		return nil, fmt.Errorf("there are from 1 to %d secrets to sign with, got %d", maxSecrets, len(list))
	}
	var keys [][]byte
	for _, text := range list {
		key := []byte(text)
		if rest, ok := strings.CutPrefix(text, "whsec_"); ok {
			key, err = base64.StdEncoding.DecodeString(rest)
			if err != nil {
				return nil, errors.New("a secret that begins with whsec_ goes on with base64")
			}
		}
		if len(key) < MinSecretBytes {
			return nil, fmt.Errorf("a secret has at least %d bytes, got %d", MinSecretBytes, len(key))
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// sign returns the header webhook-signature of Standard Webhooks.
func sign(keys [][]byte, id, timestamp string, body []byte) string {
	var all []string
	for _, key := range keys {
		m := hmac.New(sha256.New, key)
		_, _ = fmt.Fprintf(m, "%s.%s.", id, timestamp) // writes to a hash do not fail
		_, _ = m.Write(body)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(m.Sum(nil)))
	}
	return strings.Join(all, " ")
}

// perform posts an attempt.
func (s *service) perform(ctx context.Context, input []byte) ([]byte, error) {
	keys, err := s.keys()
	if err != nil {
		return nil, fmt.Errorf("handler %q: %w", s.name, err)
	}
	now := clock.System().Now()
	info := host.StepInfo(ctx)
	a := Attempt{Type: "wfhost.attempt", Handler: s.name, Namespace: info.Namespace, Run: info.RunID, Workflow: info.Workflow,
		Version: info.Version, Step: info.Name, Attempt: info.Attempt, Attempts: info.Attempts, AtMostOnce: info.AtMostOnce,
		IdempotencyKey: info.IdempotencyKey, Deadline: deadline(now, info.Timeout), TraceParent: info.TraceParent()}
	if abi.IsJSON(input) {
		a.Input = input
	} else {
		a.InputBase64 = input
	}
	body, err := json.Marshal(a)
	if err != nil {
		return nil, host.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return nil, host.Fatal(err)
	}
	timestamp := strconv.FormatInt(now.Unix(), 10)
	for name, value := range map[string]string{"Content-Type": "application/json", "User-Agent": "wfhost",
		"Idempotency-Key": a.IdempotencyKey, "Traceparent": a.TraceParent, "Webhook-Id": a.IdempotencyKey,
		"Webhook-Timestamp": timestamp, "Webhook-Signature": sign(keys, a.IdempotencyKey, timestamp, body)} {
		r.Header.Set(name, value)
	}
	if info.AtMostOnce {
		r.GetBody = nil // otherwise the transport would resend it when a connection breaks
	}
	res, err := s.client.Do(r)
	if err != nil {
		return nil, s.broken(&info, err)
	}
	defer func() { _ = res.Body.Close() }() // only read
	if res.StatusCode/100 == 2 {
		return s.result(&info, res)
	}
	if info.AtMostOnce && (res.StatusCode == http.StatusBadGateway || res.StatusCode == http.StatusGatewayTimeout) {
		return nil, s.unknown(fmt.Errorf("a proxy answered %d", res.StatusCode))
	}
	return nil, s.refusal(res)
}

// broken returns the error of a request without an answer. A step that may be made at most once is retried only if
// nothing was sent.
func (s *service) broken(info *host.Step, err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok { // without its URL, which may hold a secret: the error goes into the journal
		err = e.Err
	}
	dial, ok := errors.AsType[*net.OpError](err)
	if info.AtMostOnce && !(ok && dial.Op == "dial") {
		return s.unknown(err)
	}
	return fmt.Errorf("handler %q: %w", s.name, err)
}

func (s *service) unknown(err error) error {
	return host.Fatal(fmt.Errorf("handler %q may be called once, and nobody knows what became of it: %w", s.name, err))
}

// deadline returns the end of an attempt, at most the last instant of RFC 3339.
func deadline(now time.Time, timeout time.Duration) time.Time {
	at := now.Add(timeout).UTC()
	if last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC); at.After(last) {
		return last
	}
	return at
}

// result reads the result of an attempt: JSON, or empty.
func (s *service) result(info *host.Step, res *http.Response) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(res.Body, abi.MaxPayloadBytes+1))
	switch {
	case err != nil:
		return nil, s.broken(info, fmt.Errorf("its answer cannot be read: %w", err))
	case len(b) > abi.MaxPayloadBytes:
		return nil, host.Fatal(fmt.Errorf("handler %q: its result has more than %d bytes", s.name, abi.MaxPayloadBytes))
	case len(b) > 0 && !abi.IsJSON(b):
		return nil, host.Fatal(fmt.Errorf("handler %q: its result is JSON, got %.80q", s.name, b))
	}
	return b, nil
}

// refusal returns the error of an answer that is not a result.
func (s *service) refusal(res *http.Response) error {
	var p struct {
		Detail  string `json:"detail"`
		Title   string `json:"title"`
		Message string `json:"message"`
		Fatal   *bool  `json:"fatal"`
	}
	b, _ := io.ReadAll(io.LimitReader(res.Body, maxProblemBytes)) // a partial answer is shown, too
	text := ""
	if kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err == nil && strings.HasSuffix(kind, "json") &&
		json.Unmarshal(b, &p) == nil {
		for _, x := range []string{p.Title, p.Message, p.Detail} {
			if x != "" {
				text = x
			}
		}
	}
	if text == "" {
		text = strings.TrimSpace(string(b)) // http.Error in Go appends a line break
	}
	err := fmt.Errorf("handler %q answered %d: %s", s.name, res.StatusCode,
		strings.ToValidUTF8(text[:min(len(text), maxDetail)], "\uFFFD"))
	again := res.StatusCode >= 500 || res.StatusCode == http.StatusRequestTimeout || res.StatusCode == http.StatusTooEarly ||
		res.StatusCode == http.StatusTooManyRequests
	if p.Fatal != nil {
		again = !*p.Fatal
	}
	if !again {
		return host.Fatal(err)
	}
	if d, ok := retryAfter(res.Header.Get("Retry-After"), clock.System().Now()); ok {
		return host.RetryAfter(err, d)
	}
	return err
}

// retryAfter parses a Retry-After: seconds, or a date.
func retryAfter(text string, now time.Time) (time.Duration, bool) {
	if s, err := strconv.ParseInt(text, 10, 64); err == nil && s >= 0 {
		return time.Duration(min(s, int64(maxRetryAfter/time.Second))) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter), true
	}
	return 0, false
}
