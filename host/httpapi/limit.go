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
	// denialsPerSecond and denialsAtOnce bound the answers of 401 to one address: a token has 256 bits, so this is not
	// for those who guess, but for the load that they make.
	denialsPerSecond = 10
	denialsAtOnce    = 50
	// bodyTime is how long the body of a request may take that is no module, and what a refused request still sends.
	bodyTime = 30 * time.Second
	// slowestUpload is how many bytes a second of an upload must come: 32 MiB in less than nine minutes.
	slowestUpload = 64 << 10
	// writeTime is how long a client may take for writePiece bytes of an answer: one that reads slower than 2 KiB a second
	// does not read.
	writeTime  = 30 * time.Second
	writePiece = 64 << 10
	// maxCallers bounds the callers whose rate is remembered, at some hundred bytes each.
	maxCallers = 10_000
	// callerShare and spaceShare are the parts of all streams that one caller may have, and the tokens of one namespace
	// together where there are several: whoever may create tokens for a namespace must not keep those of others out.
	callerShare, spaceShare = 4, 2
)

// rates are the rates at which callers make requests.
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

// forget drops the callers that have not made a request for so long that they may make a whole burst again: nothing is
// remembered of them. If there is none, it drops all.
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

// streams counts the clients that follow something.
type streams struct {
	limit  int
	what   string      // is followed
	shared func() bool // whether there are several namespaces

	mu  sync.Mutex
	all int
	by  map[string]int // by caller, and by namespace of those whose tokens are for one
}

func newStreams(limit int, what string, shared func() bool) streams {
	return streams{limit: limit, what: what, shared: shared, by: map[string]int{}}
}

// enter counts one more stream of a caller until the returned function is called. If there are too many, it returns a
// problem.
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

// paced is a ResponseWriter that gives the client a time for each piece that it has to read, so that a client that reads
// slowly gets a long answer as a whole, and one that does not read is cut off.
type paced struct {
	http.ResponseWriter
	control *http.ResponseController
	backlog *backlog
	made    func() // the answer is made when it is written; may be nil

	held int    // bytes in the backlog
	turn uint64 // of the last piece: later ones have higher numbers
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

// pace returns a writer for the answer, and the request with a body that must come in time. The returned function is
// called at the end.
func (b *backlog) pace(rw http.ResponseWriter, r *http.Request) (w http.ResponseWriter, out *http.Request, end func()) {
	p := &paced{ResponseWriter: rw, control: http.NewResponseController(rw), backlog: b}
	_ = p.control.SetWriteDeadline(time.Time{}) // that of the request before
	if r.ContentLength != 0 && r.Body != nil {
		_ = p.control.SetReadDeadline(clock.System().Now().Add(bodyTime))
		body := &timed{ReadCloser: r.Body, control: p.control, header: rw.Header(), of: r.Context()}
		r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, body)) // net/http looks at the body of its own
		r.Body = body
	}
	return p, r, p.more // what is buffered is written after the end
}

// timed is a body that must come in time.
type timed struct {
	io.ReadCloser
	control *http.ResponseController
	header  http.Header // of the answer
	until   time.Time   // the zero time: as pace has it
	of      context.Context
	read    atomic.Bool // to its end
	share
}

// Read reads from the body. At its end, the time does not count any more: the client now waits for the answer. After
// another error it continues to count, and the connection is closed: nobody knows what of the body is still to come.
func (t *timed) Read(b []byte) (int, error) {
	if !t.until.IsZero() {
		_ = t.control.SetReadDeadline(t.until)
	}
	n, err := 0, endOf(t.of) // after the deadline was set, which interrupt sets to an earlier instant
	if err == nil {
		err = t.came(0, false)
	}
	if err == nil {
		n, err = t.ReadCloser.Read(b)
	} else {
		t.interrupt() // or the server would wait for the rest before it answers
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

// interrupt ends a read that waits, after the context has ended.
func (t *timed) interrupt() {
	if !t.read.Load() {
		_ = t.control.SetReadDeadline(clock.System().Now())
	}
}

// allowBody allows the body of a request that was let in the time that it needs.
func allowBody(r *http.Request, pattern string) {
	t, ok := r.Body.(*timed)
	if !ok {
		return
	}
	if pattern == importPattern { // which goes to the disk as it comes
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
