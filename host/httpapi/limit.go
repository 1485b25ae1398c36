package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
	"github.com/wfhost/wfhost/host/internal/clock"
)

// Limits of connections and callers.
const (
	// denialsPerSecond and denialsAtOnce bound the answers of 401 to one address. They limit the load of guessing; the
	// tokens themselves have 256 bits.
	denialsPerSecond = 10
	denialsAtOnce    = 50
	// bodyTime is how long the body of a request may take, except for uploads, and the rest of a refused request.
	bodyTime = 30 * time.Second
	// slowestUpload is the minimum rate of an upload in bytes per second: 32 MiB in less than nine minutes.
	slowestUpload = 64 << 10
	// writeTime is how long a client may take to read writePiece bytes of an answer. A client slower than 2 KiB per
	// second counts as not reading.
	writeTime  = 30 * time.Second
	writePiece = 64 << 10
	// maxCallers bounds the callers whose rate is remembered, at some hundred bytes each.
	maxCallers = 10_000
	// callerShare and spaceShare are the parts of all streams for one caller, and for all tokens of one namespace if
	// there are several namespaces: the creator of a namespace's tokens must not lock out other namespaces.
	callerShare, spaceShare = 4, 2
)

// rates limits the rates of requests by caller.
type rates struct {
	perSecond float64 // 0: no limit
	burst     int

	mu sync.Mutex
	by map[string]*rate.Limiter
}

func newRates(perSecond, burst float64) *rates {
	return &rates{perSecond: perSecond, burst: max(int(burst), 1), by: map[string]*rate.Limiter{}}
}

// allow reports whether a caller may make a request now.
func (r *rates) allow(caller string) bool {
	if r.perSecond <= 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.by[caller]
	if l == nil {
		if len(r.by) >= maxCallers {
			r.forget()
		}
		l = rate.NewLimiter(rate.Limit(r.perSecond), r.burst)
		r.by[caller] = l
	}
	return l.Allow()
}

// forget drops the callers whose whole burst is available again, since they have no state. If there are none, it drops
// all callers.
func (r *rates) forget() {
	for caller, l := range r.by {
		if l.Tokens() >= float64(r.burst) {
			delete(r.by, caller)
		}
	}
	if len(r.by) >= maxCallers {
		clear(r.by)
	}
}

// streams counts the clients that follow.
type streams struct {
	limit  int
	what   string      // what is followed
	shared func() bool // reports whether there are several namespaces

	mu  sync.Mutex
	all int
	by  map[string]int // by caller, and by namespace for tokens of one namespace
}

func newStreams(limit int, what string, shared func() bool) streams {
	return streams{limit: limit, what: what, shared: shared, by: map[string]int{}}
}

// enter counts one more stream of a caller until leave is called. Over the limit, it returns a problem.
func (s *streams) enter(c *caller) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, most, names := max(s.limit/callerShare, 1), max(s.limit/spaceShare, 1), []string{c.name}
	if c.Namespace != "" {
		names = append(names, "namespace "+c.Namespace)
	}
	switch {
	case s.all >= s.limit:
		return nil, problem(http.StatusServiceUnavailable, "busy", "%d clients follow %s, the limit; try again later", s.limit, s.what)
	case !c.exempt && s.by[c.name] >= own:
		return nil, problem(http.StatusTooManyRequests, "busy", "you follow %s %d times, the limit; try again later", s.what, own)
	case c.Namespace != "" && s.by[names[1]] >= most && s.shared():
		return nil, problem(http.StatusTooManyRequests, "busy",
			"callers with tokens for the namespace %q follow %s %d times, the limit; try again later", c.Namespace, s.what, most)
	}
	s.countLocked(names, 1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.countLocked(names, -1)
	}, nil
}

func (s *streams) countLocked(names []string, n int) {
	s.all += n
	for _, name := range names {
		s.by[name] += n
		if s.by[name] == 0 {
			delete(s.by, name)
		}
	}
}

// paced is a ResponseWriter with a deadline for each piece: a slow client gets a long answer as a whole, and a client
// that does not read is cut off.
type paced struct {
	http.ResponseWriter
	control *http.ResponseController
	backlog *backlog
	made    func() // called when the answer is built and its writing begins; may be nil

	held int    // bytes in the backlog
	turn uint64 // of the last piece, in order of time
	cut  bool   // the client was cut off
}

// Write writes pieces of b.
func (p *paced) Write(b []byte) (n int, err error) {
	if len(b) > writePiece {
		p.backlog.enter(p, len(b))
		defer p.backlog.leave(p)
	}
	if p.made != nil {
		p.made()
	}
	for {
		piece := b[n:min(len(b), n+writePiece)]
		p.more()
		m, err := p.ResponseWriter.Write(piece)
		n += m
		if err != nil || n >= len(b) {
			return n, err
		}
	}
}

// Flush writes what is buffered.
func (p *paced) Flush() {
	p.more()
	_ = p.control.Flush() // the client is gone
}

// Unwrap is for http.ResponseController.
func (p *paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *paced) more() { p.backlog.more(p) }

// pace returns a writer with deadlines for the answer, and the request with a body that has deadlines, too. end is
// called at the end.
func (b *backlog) pace(rw http.ResponseWriter, r *http.Request) (w http.ResponseWriter, out *http.Request, end func()) {
	p := &paced{ResponseWriter: rw, control: http.NewResponseController(rw), backlog: b}
	_ = p.control.SetWriteDeadline(time.Time{}) // clears the deadline of the previous request
	if r.ContentLength != 0 && r.Body != nil {
		_ = p.control.SetReadDeadline(clock.System().Now().Add(bodyTime))
		body := &timed{ReadCloser: r.Body, control: p.control, header: rw.Header(), of: r.Context()}
		r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, body)) // net/http keeps its own reference to the body
		r.Body = body
	}
	return p, r, p.more // buffered data is written after the end
}

// timed is a body with a deadline.
type timed struct {
	io.ReadCloser
	control *http.ResponseController
	header  http.Header // of the answer
	until   time.Time   // zero: the deadline that pace has set
	of      context.Context
	read    atomic.Bool // to its end
	share
}

// Read reads from the body. The deadline ends with the body, since the client then waits for the answer. After another
// error it stays, and the connection is closed, because it is unknown what remains of the body.
func (t *timed) Read(b []byte) (int, error) {
	if !t.until.IsZero() {
		_ = t.control.SetReadDeadline(t.until)
	}
	n, err := 0, endOf(t.of) // after setting the deadline, which interrupt may set to an earlier instant
	if err == nil {
		err = t.came(0, false)
	}
	if err == nil {
		n, err = t.ReadCloser.Read(b)
	} else {
		t.interrupt() // otherwise the server would wait for the rest before it answers
	}
	if end := endOf(t.of); end != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		err = end
	}
	if refused := t.came(n, errors.Is(err, io.EOF)); refused != nil {
		err = refused
	}
	switch {
	case errors.Is(err, io.EOF):
		t.read.Store(true)
		_ = t.control.SetReadDeadline(time.Time{})
	case err != nil:
		t.header.Set("Connection", "close")
	}
	return n, err
}

// interrupt ends a blocked read, after the context has ended.
func (t *timed) interrupt() {
	if !t.read.Load() {
		_ = t.control.SetReadDeadline(clock.System().Now())
	}
}

// allowBody sets the deadline for the body of an admitted request.
func allowBody(r *http.Request, pattern string) {
	t, ok := r.Body.(*timed)
	if !ok {
		return
	}
	if pattern == importPattern { // streamed to the disk
		t.in = nil
	}
	limit := bodyTime
	most := map[string]int64{uploadPattern: abi.MaxModuleBytes, checkPattern: abi.MaxModuleBytes,
		importPattern: host.MaxArchiveBytes}[pattern]
	length := r.ContentLength
	if length < 0 {
		length = most
	}
	limit += time.Duration(min(length, most)/slowestUpload) * time.Second
	t.until = clock.System().Now().Add(limit)
}
