package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/wfhost/wfhost/client"
	"github.com/wfhost/wfhost/store"
)

// maxAnswerBytes bounds one answer.
const maxAnswerBytes = 64 << 20

// call makes a request and decodes the answer into into, unless that is nil. It returns the status and the raw answer.
func (g *globals) call(method, path string, query url.Values, body []byte, into any) (int, []byte, error) {
	return g.callContext(g.ctx, method, path, query, body, into)
}

func (g *globals) callContext(ctx context.Context, method, path string, query url.Values, body []byte,
	into any) (int, []byte, error) {
	return g.callHeader(ctx, method, path, query, nil, body, into)
}

func (g *globals) callHeader(ctx context.Context, method, path string, query url.Values, header http.Header, body []byte,
	into any) (int, []byte, error) {
	res, err := g.send(ctx, method, path, query, header, body)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }() // the body has been read
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes))
	if err != nil {
		return 0, nil, &away{fmt.Errorf("read answer of %s: %w", g.Server, err)}
	}
	if into != nil {
		if err := json.Unmarshal(b, into); err != nil {
			return res.StatusCode, b, fmt.Errorf("answer of %s: %w", g.Server, err)
		}
	}
	return res.StatusCode, b, nil
}

// encoded returns the JSON of a body without HTML escapes.
func encoded(body any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(body)
	return b.Bytes(), err
}

// exchange makes a request with a JSON body, or none if body is nil, and decodes the answer.
func (g *globals) exchange(method, path string, body, into any) error {
	var b []byte
	header := http.Header{}
	if body != nil {
		var err error
		b, err = encoded(body)
		if err != nil {
			return err
		}
		header.Set("Content-Type", "application/json")
	}
	_, _, err := g.callHeader(g.ctx, method, path, nil, header, b, into)
	return err
}

// download makes a request and writes the streamed answer to w. what names the stream in errors.
func (g *globals) download(ctx context.Context, method, path string, query url.Values, body []byte, what string,
	w io.Writer) error {
	stream, err := g.stream(ctx, method, path, query, nil, body)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // the stream has been read
	_, err = io.Copy(w, &fromServer{stream, what, g.Server})
	return err
}

// stream makes a request and returns the body of the answer, which the caller closes.
func (g *globals) stream(ctx context.Context, method, path string, query url.Values, header http.Header,
	body []byte) (io.ReadCloser, error) {
	res, err := g.send(ctx, method, path, query, header, body)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// send makes a request. The caller reads and closes the body of the answer.
func (g *globals) send(ctx context.Context, method, path string, query url.Values, header http.Header,
	body []byte) (*http.Response, error) {
	api, err := g.api()
	if err != nil {
		return nil, err
	}
	if method == http.MethodPut && header.Get("Content-Type") == "" {
		header = http.Header{"Content-Type": {"application/wasm"}}
	}
	res, err := api.Do(ctx, client.Request{Method: method, Path: path, Query: query, Header: header, Body: body})
	return res, g.unreachable(ctx, err)
}

// api returns the client of the server. The client does not retry: at a terminal, errors are shown at once.
func (g *globals) api() (*client.Client, error) {
	if g.client == nil {
		h, err := g.newClient()
		if err != nil {
			return nil, err
		}
		g.client, err = client.New(g.Server, client.WithHTTPClient(h), client.WithTokenSource(g.tokenOf),
			client.WithNamespace(g.Namespace), client.WithPatience(0), client.WithAway(g.saysAway))
		if err != nil {
			return nil, err
		}
	}
	return g.client, nil
}

// apiFor returns the client after the server has confirmed that it has a run. From then on the client waits for an absent server.
func (g *globals) apiFor(run string) (*client.Client, error) {
	api, err := g.api()
	if err == nil {
		_, err = api.Get(g.ctx, run)
	}
	return api, g.unreachable(g.ctx, err)
}

// unreachable adds advice to the error of a request that was not answered.
func (g *globals) unreachable(ctx context.Context, err error) error {
	ue, ok := errors.AsType[*url.Error](err)
	if !ok || ctx.Err() != nil {
		return err
	}
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("the certificate of %s is not one that is trusted (%w); give --ca FILE if it is your own", g.Server, bad.Err)
	}
	return &away{fmt.Errorf("no server at %s (%w); start one with: wfhost serve", g.Server, ue.Err)}
}

// newClient returns an HTTP client with the certificates from the flags.
func (g *globals) newClient() (*http.Client, error) {
	if g.CA == "" && g.ClientCert == "" && g.ClientKey == "" && g.pinned == "" {
		return http.DefaultClient, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if g.CA != "" {
		pool, err := readPool(g.CA)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		config.RootCAs = pool
	}
	if g.pinned != "" && g.CA == "" {
		if err := pin(config, g.pinned); err != nil {
			return nil, err
		}
	}
	if g.ClientCert != "" || g.ClientKey != "" {
		pair, err := tls.LoadX509KeyPair(g.ClientCert, g.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("--client-cert and --client-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config}}, nil
}

// pin accepts only a server with the first certificate of a file, and ignores its name and issuer: the holder of its key is
// that server.
func pin(config *tls.Config, file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the certificate of the server: %w", err)
	}
	block, rest := pem.Decode(b)
	for block != nil && block.Type != "CERTIFICATE" {
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		return fmt.Errorf("the certificate of the server: %s has none", file)
	}
	want := block.Bytes
	config.InsecureSkipVerify = true //nolint:gosec // VerifyConnection is stricter
	config.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 || !bytes.Equal(s.PeerCertificates[0].Raw, want) {
			return fmt.Errorf("the server has another certificate than the first one in %s", file)
		}
		return nil
	}
	return nil
}

// withScheme returns the address of a server, with http:// added if it has no scheme and is on this machine. Elsewhere a
// missing https must not lead to a token sent in the clear. Invalid addresses are refused.
func withScheme(server string) (string, error) {
	if strings.Contains(server, "://") {
		if u, err := url.Parse(server); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return "", fmt.Errorf("--server must be an address such as https://wf.example.com:7777, got %.200q", server)
		}
		return server, nil
	}
	u, err := url.Parse("http://" + server)
	if err == nil && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()) {
		return u.String(), nil
	}
	return "", fmt.Errorf("--server must begin with https:// or http:// where it is not this machine, got %q: "+
		"https://%s if it has TLS; http://%s sends the token in the clear", server, server, server)
}

// exitOf returns the exit status for an answer of the server, false if the error is not an answer.
func exitOf(err error) (int, bool) {
	if _, ok := errors.AsType[*client.RunError](err); ok {
		return exitRunFailed, true
	}
	e, ok := errors.AsType[*client.Error](err)
	switch {
	case !ok:
		return 0, false
	case e.Code == "update_failed":
		return exitRunFailed, true
	case e.Code == "update_refused":
		return exitConflict, true
	case errors.Is(e, client.ErrMismatch):
		return exitMismatch, true
	case e.Status == http.StatusNotFound:
		return exitNotFound, true
	case e.Status == http.StatusConflict:
		return exitConflict, true
	case e.Status == http.StatusForbidden || e.Status == http.StatusUnauthorized:
		return exitDenied, true
	}
	return exitError, true
}

func runPath(id, rest string) string { return "/v1/runs/" + segment(id) + rest }

// segment escapes text as one path segment.
func segment(text string) string { return client.Segment(text) }

// address returns the URL of a page with the server, the path and the namespace.
func (g *globals) address(path string) string {
	address := strings.TrimSuffix(g.Server, "/") + path
	if g.Namespace != "" && g.Namespace != store.DefaultNamespace {
		address += "?" + url.Values{"namespace": {g.Namespace}}.Encode()
	}
	return address
}
