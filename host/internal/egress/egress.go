package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/traceid"
)

// Limits of a request.
const (
	// MaxResponseBytes bounds a response with its head: it is the result of a step, or a part of one.
	MaxResponseBytes = abi.MaxPayloadBytes
	// maxHeaderBytes bounds the header of a response.
	maxHeaderBytes = 64 << 10
	// dialTimeout bounds one connection attempt.
	dialTimeout = 10 * time.Second
)

// Request is the head of a request.
type Request struct {
	Method    string              `json:"method"`
	URL       string              `json:"url"`
	Headers   map[string][]string `json:"headers,omitempty"`
	TimeoutMs int64               `json:"timeout_ms,omitempty"`
	// Redirect says how redirects are handled: RedirectFollow (the default), RedirectManual or RedirectError.
	Redirect string `json:"redirect,omitempty"`
}

// Response is the head of a response.
type Response struct {
	Status  int                 `json:"status"`
	Headers map[string][]string `json:"headers,omitempty"`
	// Redirected reports whether redirects were followed. URL is then the last URL, without its fragment; otherwise it is empty.
	Redirected bool   `json:"redirected,omitempty"`
	URL        string `json:"url,omitempty"`
}

// Frame joins a head and a body: length of the head as u32, little endian; the head as JSON; the body.
func Frame(head any, body []byte) ([]byte, error) {
	b, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	return append(append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...), body...), nil
}

// Unframe splits a frame: it decodes the head and returns the body.
func Unframe(b []byte, head any) (body []byte, err error) {
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		return nil, abi.Errorf(abi.InvalidArgument, "the request has %d bytes, fewer than its head claims", len(b))
	}
	n := binary.LittleEndian.Uint32(b)
	if err := json.Unmarshal(b[4:4+n], head); err != nil {
		return nil, abi.Errorf(abi.InvalidArgument, "the head of the request: %v", err)
	}
	return b[4+n:], nil
}

// Fetch performs a framed request under a policy. Errors are *abi.Error: Denied, TooLarge, InvalidArgument, or
// StepFailed if the request itself failed.
func Fetch(ctx context.Context, p Policy, framed []byte) ([]byte, error) {
	if len(framed) > abi.MaxPayloadBytes {
		return nil, abi.Errorf(abi.TooLarge, "the request has %d bytes, the limit is %d", len(framed), abi.MaxPayloadBytes)
	}
	var r Request
	body, err := Unframe(framed, &r)
	if err != nil {
		return nil, err
	}
	res, body, err := Do(ctx, p, r, body)
	if err != nil {
		return nil, err
	}
	return Frame(res, body)
}

// Do performs a request under a policy.
func Do(ctx context.Context, p Policy, r Request, body []byte) (res Response, answer []byte, err error) {
	if r.TimeoutMs > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, abi.Duration(r.TimeoutMs))
		defer cancel()
	}
	if r.Method == "" {
		r.Method = http.MethodGet
	}
	if err := r.checkMode(); err != nil {
		return res, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(body))
	if err != nil {
		return res, nil, abi.Errorf(abi.InvalidArgument, "request: %v", err)
	}
	if !p.allowed(req.URL) {
		return res, nil, denied(req.URL)
	}
	f := &fetcher{policy: &p}
	for name, values := range r.Headers {
		for _, v := range values {
			v, err = f.fill(req.URL, name, v)
			if err != nil {
				return res, nil, err
			}
			req.Header.Add(name, v)
		}
	}
	if id := traceid.Header(ctx); id != "" && req.Header.Get("Traceparent") == "" {
		req.Header.Set("Traceparent", id)
	}
	if err := f.checkHeaders(req.Header); err != nil {
		return res, nil, err
	}
	if host := req.Header.Get("Host"); host != "" && !strings.EqualFold(host, req.URL.Host) {
		return res, nil, abi.Errorf(abi.Denied, "the header Host must be that of the URL")
	}
	t := f.transport()
	defer t.CloseIdleConnections()
	got, err := f.send(t, req, r.Redirect)
	if err != nil {
		return res, nil, err
	}
	defer func() { _ = got.Body.Close() }() // it has been read
	return f.read(got, got.Request != req)
}

// read reads a response and redacts the secrets that were sent.
func (f *fetcher) read(got *http.Response, redirected bool) (res Response, answer []byte, err error) {
	if err := f.checkAnswer(got); err != nil {
		return res, nil, err
	}
	answer, err = io.ReadAll(io.LimitReader(got.Body, MaxResponseBytes+1))
	if err != nil {
		return res, nil, f.failure(err)
	}
	// A response that was cut here may end in a part of a secret, which the redactor would not find.
	if len(answer) > MaxResponseBytes {
		return res, nil, tooLarge()
	}
	res = Response{Status: got.StatusCode, Headers: map[string][]string{}}
	for name, values := range got.Header {
		name = f.redactor.redact(name)
		for _, v := range values {
			res.Headers[name] = append(res.Headers[name], f.redactor.redact(v))
		}
	}
	if redirected {
		res.Redirected, res.URL = true, shown(got.Request.URL)
	}
	answer = []byte(f.redactor.redact(string(answer)))
	if len(answer) > MaxResponseBytes-maxHeaderBytes {
		return res, nil, tooLarge()
	}
	return res, answer, nil
}

// tooLarge returns the error for a response that is too long.
func tooLarge() *abi.Error {
	return abi.Errorf(abi.TooLarge, "the response has more than %d bytes", MaxResponseBytes-maxHeaderBytes)
}

// denied returns the error for a request to u that is not allowed. Its message says how to change or grant the request.
func denied(u *url.URL) *abi.Error {
	to := u.Scheme + "://" + u.Host
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return abi.Errorf(abi.Denied, "requests to %s are not allowed: only those by http and https to a host can be", to)
	case u.User != nil:
		return abi.Errorf(abi.Denied, "requests to %s with a user in the URL are not allowed: set the header Authorization", to)
	}
	return abi.Errorf(abi.Denied, "requests to %s are not allowed: upload or run the version with --allow-http %[1]s, or "+
		"host.AllowHTTP in a program that embeds the host", to)
}

// fetcher is the state of one request.
type fetcher struct {
	policy   *Policy
	secret   bool // a secret was filled in
	redactor redactor
	// denial is why an address was refused. The dialling goroutine sets it, possibly after the request has ended.
	denial atomic.Pointer[abi.Error]
}

// placeholder matches a guest's reference to a secret.
var placeholder = regexp.MustCompile(`\{\{secret:([^{}]*)\}\}`)

// fill replaces the placeholders in the value of a header with secrets. It fails if a secret is not granted for the
// header and the URL, is missing, or holds a control character other than tab.
func (f *fetcher) fill(u *url.URL, header, value string) (string, error) {
	var err error
	filled := placeholder.ReplaceAllStringFunc(value, func(text string) string {
		name := placeholder.FindStringSubmatch(text)[1]
		for _, g := range f.policy.Secrets {
			if g.Name != name || g.Header != strings.ToLower(header) || !g.To.matches(u) {
				continue
			}
			if f.policy.Secret != nil {
				if v, ok := f.policy.Secret(name); ok && v != "" {
					if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
						err = abi.Errorf(abi.Denied, "the secret %q holds a control character, perhaps the end of a line, which no "+
							"header may hold", name)
						return ""
					}
					f.secret = true
					f.redactor.add(v, text)
					return v
				}
			}
			err = abi.Errorf(abi.Denied, "this host has no secret %q", name)
			return ""
		}
		err = abi.Errorf(abi.Denied, "the secret %q may not be sent to %s in the header %s", name, u.Host, header)
		return ""
	})
	return filled, err
}

// Headers that a guest may not set in a request with a secret. They could make the service answer in a form in which
// the redactor does not find the secret: compressed, in another character set, in parts, or by another protocol.
var (
	// leftOut are removed: HTTP clients set them on their own.
	leftOut = []string{"Accept-Encoding", "Accept-Charset", "Connection", "Te", "Trailer", "Transfer-Encoding", "Expect"}
	// refused fail the request: without them, the guest would not get the answer that it wants.
	refused = []string{"Range", "If-Range", "A-Im", "Upgrade", "Http2-Settings"}
)

// checkHeaders removes the leftOut headers from a request with a secret, and refuses it if it has a refused header.
func (f *fetcher) checkHeaders(h http.Header) error {
	if !f.secret {
		return nil
	}
	for _, name := range leftOut {
		h.Del(name) // the host's client sets its own: it asks for gzip, and decodes it
	}
	for _, name := range refused {
		if len(h.Values(name)) > 0 {
			return abi.Errorf(abi.Denied, "the header %s must not be set in a request that sends a secret: only the host may say "+
				"in which form the answer comes, so that it finds the secret there", name)
		}
	}
	return nil
}

// checkAnswer refuses a response in which the redactor could not find a secret that was sent.
func (f *fetcher) checkAnswer(got *http.Response) error {
	if !f.secret {
		return nil
	}
	for _, v := range got.Header.Values("Content-Encoding") {
		v = strings.TrimSpace(v)
		if v != "" && !strings.EqualFold(v, "identity") {
			return abi.Errorf(abi.Denied, "the answer to a request with a secret came encoded as %.40q, which nobody asked for: "+
				"the host does not find the secret there", f.redactor.redact(v))
		}
	}
	switch got.StatusCode {
	case http.StatusSwitchingProtocols, http.StatusPartialContent, http.StatusIMUsed:
		return abi.Errorf(abi.Denied, "the answer to a request with a secret has status %d, which nobody asked for: the host does "+
			"not find the secret in parts of an answer", got.StatusCode)
	}
	return nil
}

// transport returns the transport for one request. It uses no proxy: the host's environment is not meant for guests.
func (f *fetcher) transport() *http.Transport {
	dialer := net.Dialer{Timeout: dialTimeout}
	t := &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeaderBytes, ForceAttemptHTTP2: true}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		d := dialer
		d.Control = func(_, resolved string, _ syscall.RawConn) error { return f.checkAddress(address, resolved) }
		return d.DialContext(ctx, network, address)
	}
	return t
}

// checkAddress checks the address that is about to be dialled for a host. A private address is allowed only if the host
// is an address or localhost, and a grant names it.
func (f *fetcher) checkAddress(wanted, resolved string) error {
	to, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return err
	}
	if !private(to.Addr()) {
		return nil
	}
	host, port, err := net.SplitHostPort(wanted)
	if err != nil {
		return err
	}
	for _, p := range f.policy.Hosts {
		if p.private && p.Host == strings.ToLower(host) && p.Port == port {
			return nil
		}
	}
	return f.deny(abi.Errorf(abi.Denied, "%s resolves to the private address %s, which no grant names", host, to.Addr()))
}

// deny saves a denial for failure, and returns it.
func (f *fetcher) deny(e *abi.Error) error {
	f.denial.Store(e)
	return e
}

// failure turns an error of the HTTP client into an error that the guest may see. A denial replaces it. After a secret
// was sent, the text of an error is hidden if it could quote what the service sent.
func (f *fetcher) failure(err error) error {
	if e := f.denial.Load(); e != nil {
		return e
	}
	kind := abi.KindError
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		kind = abi.KindTimeout
	}
	text := err.Error()
	if f.secret && kind != abi.KindTimeout && !local(err) {
		text = "a request with a secret failed: it, or its answer, is no HTTP, or beyond a limit; the cause is not shown, since " +
			"it could quote the secret"
	}
	return &abi.Error{Code: abi.StepFailed, Kind: kind, Message: f.redactor.redact(text), Retryable: true}
}

// local reports whether an error contains nothing that a service sent after it got a request.
func local(err error) bool {
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	for _, known := range []error{context.Canceled, context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
