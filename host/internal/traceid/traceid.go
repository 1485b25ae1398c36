// Package traceid gives runs and their attempts ids of W3C Trace Context (https://www.w3.org/TR/trace-context/, level
// 1). The ids are computed from durable data, so a trace continues after a restart of the host, and on another host.
//
// A run belongs to the trace of the caller who started it. Without such a trace it gets its own, whose id is a hash of the run's
// incarnation: it cannot be computed without knowing the incarnation. The run, and each attempt of its steps, has a span.
package traceid

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/wfhost/wfhost/store"
)

// Context is a span, as it is passed to other services.
type Context struct {
	Trace   [16]byte
	Span    [8]byte
	Parent  [8]byte // the parent span; zero if there is none
	Sampled bool    // the trace's originator records it
}

// sampled is the flag for Context.Sampled.
const sampled = 1

// headerLen is the length of a header of version 00: version, trace id, span id and flags in hexadecimal, separated by dashes.
const headerLen = 2 + 1 + 32 + 1 + 16 + 1 + 2

// String returns the traceparent header of version 00.
func (c Context) String() string {
	flags := byte(0)
	if c.Sampled {
		flags = sampled
	}
	b := make([]byte, 0, headerLen)
	b = append(b, "00-"...)
	b = append(hex.AppendEncode(b, c.Trace[:]), '-')
	b = append(hex.AppendEncode(b, c.Span[:]), '-')
	return string(hex.AppendEncode(b, []byte{flags}))
}

// Parse parses a traceparent header. ok is false if it is malformed; the standard says to ignore it then. From an
// unknown version, Parse reads the fields of version 00.
func Parse(header string) (c Context, ok bool) {
	h := strings.TrimSpace(header)
	if len(h) < headerLen || h[2] != '-' || h[35] != '-' || h[52] != '-' || strings.ToLower(h) != h {
		return Context{}, false
	}
	var version, flags [1]byte
	for _, x := range []struct {
		dst  []byte
		text string
	}{{version[:], h[:2]}, {c.Trace[:], h[3:35]}, {c.Span[:], h[36:52]}, {flags[:], h[53:55]}} {
		if _, err := hex.Decode(x.dst, []byte(x.text)); err != nil {
			return Context{}, false
		}
	}
	if version[0] == 0xff || version[0] == 0 && len(h) > headerLen || len(h) > headerLen && h[headerLen] != '-' ||
		c.Trace == [16]byte{} || c.Span == [8]byte{} {
		return Context{}, false
	}
	c.Sampled = flags[0]&sampled != 0
	return c, true
}

// Normal returns a header as a run keeps it: with version 00, of headerLen bytes. It returns "" if the header is malformed.
func Normal(header string) string {
	c, ok := Parse(header)
	if !ok {
		return ""
	}
	return c.String()
}

// OfRun returns the span of a run that was started under a header, which may be empty.
func OfRun(i store.Incarnation, header string) Context {
	span := sha256.Sum256(append([]byte("wfhost run\x00"), i[:]...))
	c, ok := Parse(header)
	if !ok {
		trace := sha256.Sum256(append([]byte("wfhost trace\x00"), i[:]...))
		c = Context{Trace: [16]byte(trace[:16]), Sampled: true}
	}
	c.Parent, c.Span = c.Span, [8]byte(span[:8])
	return c
}

// Attempt identifies an attempt of a step.
type Attempt struct {
	Incarnation    store.Incarnation // of its run
	Header         string            // traceparent header of the start of the run; empty = none
	IdempotencyKey string
	Number         uint32
}

// Context returns the span of the attempt.
func (a Attempt) Context() Context {
	c := OfRun(a.Incarnation, a.Header)
	span := sha256.Sum256(binary.LittleEndian.AppendUint32([]byte("wfhost span\x00"+a.IdempotencyKey), a.Number))
	c.Parent, c.Span = c.Span, [8]byte(span[:8])
	return c
}

type key struct{}

// With returns a context for the work of an attempt.
func With(ctx context.Context, a Attempt) context.Context { return context.WithValue(ctx, key{}, a) }

// Header returns the traceparent header for requests of the attempt of ctx, and "" if ctx has none.
func Header(ctx context.Context) string {
	a, ok := ctx.Value(key{}).(Attempt)
	if !ok {
		return ""
	}
	return a.Context().String()
}
