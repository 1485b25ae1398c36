// Package replay answers the calls of a guest from the journal of its run. It is pure: it has no I/O, clock, goroutine or lock.
// Replay and live execution are the same code. If the journal holds an entry for a call, the call is compared with the entry and
// answered from it. The first call beyond the end of the journal is appended; from there, the guest is live.
//
// Two cursors walk the journal. Calls are matched in order by kind, name, target and the number of deliveries that the guest
// took before. Await and Poll hand over deliveries in journal order when the guest asks. What a guest sees depends on nothing
// else.
package replay

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// ErrSuspend: the guest waits for a delivery that is not in the journal yet. The caller repeats the call when the journal has
// grown, or discards the instance.
var ErrSuspend = errors.New("suspend")

// ErrBodyEnd: the guest called step_end, so the activation of the body is over.
var ErrBodyEnd = errors.New("body ended")

// ErrBodyWait: a body polls. The caller waits in real time, then repeats the call.
var ErrBodyWait = errors.New("body waits")

// A Tail is the journal of a run as an activation sees it.
type Tail interface {
	// Entries returns all entries so far. Deliveries may arrive during the activation.
	Entries() []store.Entry
	// Append appends a call and returns it as appended. For a withdraw, it checks whether the step's attempt has begun and sets
	// the Code. An error means that the activation is over.
	Append(e store.Entry) (store.Entry, error)
	// CallRoom returns an error if the journal has no room for another call.
	CallRoom() error
	// CheckAttribute returns an error if the run may not set the attribute key.
	CheckAttribute(key string) error
	// Now returns the host's clock for the run in Unix milliseconds. It is called in mode Live only.
	Now() int64
}

// Mode is the purpose of an activation.
type Mode uint8

// The modes of an activation.
const (
	Live   Mode = iota // replays, then continues beyond the end of the journal
	Body               // replays up to Config.Until, then executes one body
	StepFn             // runs a step function in a fresh instance, without a journal
	Check              // replays only: the first live call ends it with ErrSuspend
	Query              // replays to where the guest waits, then delivers a query
)

// Config configures a Machine.
type Config struct {
	Mode    Mode
	Started journal.Started
	Input   []byte
	// StartedUnixMs is started_at.
	StartedUnixMs int64
	Tail          Tail
	// Rested is how many entries the journal had when the guest last reached a wait, 0 if unknown.
	Rested      store.Seq
	Until       store.Seq // Body: number of entries the guest had at its last suspension
	Handle      int64     // Body: handle of the step
	BodiesEvent bool      // the module receives RUN_BODY at its suspension point
	Step        *StepInfo // Body and StepFn: the attempt, for info
	// HandlerError returns nil if a step may name this handler, else an *abi.Error of UnknownHandler or Denied.
	HandlerError func(handler string) error
	// NewToken generates a token for a hook.
	NewToken func() string
	// Query is the question in mode Query. Ended reports that the run has ended.
	Query QueryRequest
	Ended bool
	// RealTime returns the wall clock in nanoseconds and the nanoseconds since the body began. Body and StepFn.
	RealTime func() (wallNs, elapsedNs int64)
	// RealRandom fills p with random bytes. Body and StepFn.
	RealRandom func(p []byte)
	// OnWait, if not nil, is called whenever the guest begins to wait, before it gets a delivery, with the number of deliveries
	// taken so far. Live and replay wait at the same points with the same memory.
	OnWait func(consumed uint64)
	Strict bool // a changed input, deadline or option is a mismatch even if the outcome is known
	// Tuned is the seq of the entry that last switched the run to another version, 0 if there is none. Another version may have
	// made the calls before it, so Strict does not apply to them. New raises Tuned past the entries that a restart copied.
	Tuned store.Seq
	// MaxChildren is the limit of live children for a run without a parent: see abi.LiveChildren. Live.
	MaxChildren int
}

// Machine answers the calls of one activation. It is used by one goroutine at a time.
type Machine struct {
	state
	cfg     Config
	entries []store.Entry
}

// state is what a machine keeps while its guest is frozen. The journal and the configuration are those of the next activation.
type state struct {
	argument
	clock
	rng *rand.ChaCha8 // nil until first used

	callPos    int // all call entries before this index are matched
	delPos     int // no delivery before this index can be taken
	consumed   uint64
	taken      map[int]bool // taken deliveries without a handle, by index
	arrivals   arrivals
	handles    []handle
	open       open
	names      map[string]struct{} // unique names of calls in the first collected entries
	collected  int
	events     []int64
	dumped     bool
	cancelled  bool // a cooperative cancel was handed over
	query      bool // the query was handed over
	attributes attributes
	markers    markers
	beyond     bool // the guest has passed its last wait (Config.Rested)
	loaded     int  // entries when the guest began
	position   store.Seq

	inBody     bool
	bodyMonoNs int64
	suspension store.Suspension
	last       []byte
	outcome    Outcome
	Warnings   []string
}

// open counts the handles that the guest has neither been told nor withdrawn.
type open struct {
	all, children int
}

func (o *open) add(k store.Kind, n int) {
	o.all += n
	if k == store.KindChild {
		o.children += n
	}
}

type handle struct {
	kind      store.Kind
	name      string
	seen      bool // the guest has been told the outcome
	withdrawn bool
	answered  bool // the guest answered the update of this handle
	delivery  int  // index of its delivery, once seen
	call      int  // index of its call
}

// Outcome is what the guest handed over by complete, fail, step_end, query_reply and continue_as_new.
type Outcome struct {
	Result    []byte
	Completed bool
	Failure   []byte // error JSON
	Failed    bool
	BodyOK    bool
	Body      []byte
	BodyEnded bool
	Cancelled bool // a cooperative cancel was handed over
	Asked     bool // the query was handed over
	Reply     []byte
	// Sizes as handed over. Beyond the limit, Reply, Result and the result in Body hold only the beginning. ResultBytes is 0 unless
	// the result of a step function is too large.
	BodyBytes, ReplyBytes, ResultBytes int
	ReplyOK                            bool
	Replied                            bool
	Continue                           *store.Entry // the call entry of continue_as_new, after ErrContinue
}

// QueryRequest is a question to a run.
type QueryRequest struct {
	Name  string
	Input []byte
}

// StepInfo describes the attempt in info, in bodies and step functions.
type StepInfo struct {
	Name           string          `json:"name"`
	Handler        string          `json:"handler,omitempty"` // the step function; empty in bodies
	Attempt        uint32          `json:"attempt"`
	Attempts       int             `json:"attempts"`
	IdempotencyKey string          `json:"idempotency_key"`
	DeadlineMs     int64           `json:"deadline_ms"` // when the attempt times out, in Unix milliseconds
	LastError      json.RawMessage `json:"last_error,omitempty"`
}

// New returns a Machine at the beginning of the journal.
func New(cfg Config) *Machine {
	if n := cfg.Started.Copied; n > 0 { // another run made these calls
		cfg.Tuned = max(cfg.Tuned, store.Seq(n)+1)
	}
	m := &Machine{state: state{argument: argumentOf(&cfg.Started)}, cfg: cfg}
	if cfg.Mode == StepFn {
		m.inBody = true
		return m
	}
	m.refresh()
	m.loaded = len(m.entries)
	m.begins()
	m.handles = make([]handle, 0, len(m.entries)/2+1) // most have a call and a delivery
	return m
}

// Fork returns a machine that executes a body in the instance whose guest waits for it. m must be at a suspension, after
// ErrSuspend. m must not be used while the body runs; afterwards it continues where it was. cfg has mode Body.
//
// Fork first collects the attributes in m, because each fork would read the whole journal for them again.
func (m *Machine) Fork(cfg Config) *Machine {
	m.attributes.after(&m.cfg.Started, m.entries[:m.callPos])
	b := *m
	b.cfg, b.events, b.outcome, b.last = cfg, nil, Outcome{}, nil
	return &b
}

// seeded returns the run's random source: ChaCha8 (math/rand/v2, the generator of https://c2sp.org/chacha8rand) keyed by the
// SHA-256 of the run's seed and the iteration (4 bytes, little endian).
func seeded(seed []byte, iteration uint32) *rand.ChaCha8 {
	return rand.NewChaCha8(sha256.Sum256(binary.LittleEndian.AppendUint32(slices.Clip(seed), iteration)))
}

// refresh reloads the entries, which may have grown. A body sees only the entries before Config.Until.
func (m *Machine) refresh() {
	m.entries = m.cfg.Tail.Entries()
	if m.cfg.Mode == Body {
		m.entries = m.entries[:min(int(m.cfg.Until), len(m.entries))]
	}
}

// InBody reports whether a body or a step function executes.
func (m *Machine) InBody() bool { return m.inBody }

// Outcome returns what the guest has handed over so far.
func (m *Machine) Outcome() Outcome {
	out := m.outcome
	out.Cancelled, out.Asked = m.cancelled, m.query
	return out
}

// Suspension returns where the guest waits, after ErrSuspend.
func (m *Machine) Suspension() store.Suspension { return m.suspension }

// Consumed returns the number of deliveries that the guest has taken.
func (m *Machine) Consumed() uint64 { return m.consumed }

// Passed reports whether the guest still replays: it has not reached its last wait, or the journal holds calls that it has not
// made. Computing while Passed does not count against the guest's limits.
func (m *Machine) Passed() bool {
	if m.away() {
		return false
	}
	return m.cfg.Rested > 0 && !m.beyond || m.nextCall() != nil
}

// behind reports whether an earlier instance of the guest took deliveries that this one has yet to take. The guest must not see
// the present time before it has taken them: a timer that rang between two of them would be over at once, and the guest would not
// wait for its Clock entry. The journal says how many there are in a copy, and after a retry of a run that its workflow ended.
// Otherwise any delivery may be one of them while the last wait is unknown.
func (m *Machine) behind() bool {
	switch {
	case m.cfg.Rested > 0 || m.beyond: // see Passed
		return false
	case m.cfg.Started.TakenKnown:
		return m.consumed < m.cfg.Started.Taken
	}
	m.skipOver()
	return m.delPos < m.loaded
}

// RunID returns the id of the run.
func (m *Machine) RunID() string { return m.cfg.Started.RunID }

// Input returns the input of the run, the step or the query.
func (m *Machine) Input() []byte {
	if m.query {
		return m.cfg.Query.Input
	}
	return m.cfg.Input
}

// Told reports whether the guest received the outcome of a handle.
func (m *Machine) Told(id int64) bool {
	h := m.handle(id)
	return h != nil && h.seen
}

// Random fills p with random bytes: the same on each replay; in bodies, real random bytes.
func (m *Machine) Random(p []byte) {
	if m.inBody {
		m.cfg.RealRandom(p)
		return
	}
	if m.rng == nil {
		m.rng = seeded(m.cfg.Started.Seed, m.cfg.Started.Iteration)
	}
	_, _ = m.rng.Read(p) // never fails
}

// Last returns the bytes of the newest answer: the result if the call returned 0 or more, else the error JSON.
func (m *Machine) Last() []byte { return m.last }

// Answer sets the newest answer, for Last, and returns it with its length.
func (m *Machine) Answer(b []byte) ([]byte, int64) {
	m.last = b
	return b, int64(len(b))
}

// RefuseWithoutEntry refuses a call of a kind that is never recorded, and returns the negated code of err.
func (m *Machine) RefuseWithoutEntry(err error) int64 { return m.refuse(err) }

// refuse sets the error JSON for Last and returns the negated code.
func (m *Machine) refuse(err error) int64 {
	e := asError(err)
	m.last, _ = json.Marshal(e)
	return e.Code.Neg()
}

func asError(err error) *abi.Error {
	if e, ok := errors.AsType[*abi.Error](err); ok {
		return e
	}
	return abi.Errorf(abi.InvalidArgument, "%v", err)
}

// At returns the seq of the newest entry that the guest has reached: a call that it made or a delivery that it took.
func At(m *Machine) store.Seq { return m.position }
