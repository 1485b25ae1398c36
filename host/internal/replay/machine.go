// Package replay answers the calls of a guest from the journal of its run. It is pure: no I/O, clock, goroutine or lock of its
// own. Replay and live are the same code: a call for which the journal holds an entry is compared with it and answered by it; the
// first call beyond the end is appended, and from there the guest is live.
//
// Two cursors walk the journal. Calls are matched in order, each with its kind, name and target, and with the
// number of deliveries that the guest had taken before it. Deliveries are handed over in journal order, by
// Await and Poll, when the guest asks for them. Nothing that a guest sees depends on anything else.
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

// ErrSuspend says that the guest waits for something that the journal does not hold yet. The call may be
// repeated when the journal has grown, or the instance is given up.
var ErrSuspend = errors.New("suspend")

// ErrBodyEnd says that step_end was called: the activation of the body is over.
var ErrBodyEnd = errors.New("body ended")

// ErrBodyWait says that a body polls: its caller really waits, then repeats the call.
var ErrBodyWait = errors.New("body waits")

// A Tail is the journal of a run as an activation sees it.
type Tail interface {
	// Entries gives all entries so far. It grows while the activation goes on, since deliveries arrive.
	Entries() []store.Entry
	// Append appends a call and gives it back as it was appended. Of a withdraw, the tail decides whether the
	// step's attempt has begun, and fills in the Code. An error means that the activation is over.
	Append(e store.Entry) (store.Entry, error)
	// CallRoom says whether the journal has room for another call.
	CallRoom() error
	// CheckAttribute says whether the run may have another attribute of this key.
	CheckAttribute(key string) error
	// Now returns what the host's clock shows for the run, in Unix milliseconds. Live.
	Now() int64
}

// Mode says what an activation is for.
type Mode uint8

// The modes of an activation.
const (
	Live   Mode = iota // goes on where the journal ends
	Body               // replays up to Config.Until, then executes one body
	StepFn             // runs a step function in a fresh instance, without a journal
	Check              // replays only: the first live call ends it with ErrSuspend
	Query              // replays to where the guest waits, and hands it a query
)

// Config is what a Machine is made from.
type Config struct {
	Mode    Mode
	Started journal.Started
	Input   []byte
	// StartedUnixMs is started_at.
	StartedUnixMs int64
	Tail          Tail
	// Rested is how many entries the journal had when the guest last came to a wait, 0 if that is not known.
	Rested      store.Seq
	Until       store.Seq // Body: how many entries the guest had been given at its last suspension
	Handle      int64     // Body: the step whose body is executed
	BodiesEvent bool      // the module is told RUN_BODY at its suspension point
	Step        *StepInfo // Body and StepFn: what info tells of the attempt
	// HandlerError says whether a step may name this handler: nil, or an *abi.Error of UnknownHandler or Denied.
	HandlerError func(handler string) error
	// NewToken makes a token for a hook.
	NewToken func() string
	// Query is what Mode Query asks, and Ended says that the run has ended.
	Query QueryRequest
	Ended bool
	// RealTime gives the wall clock in nanoseconds and the nanoseconds since the body began. Body, StepFn.
	RealTime func() (wallNs, elapsedNs int64)
	// RealRandom fills a body's random bytes.
	RealRandom func(p []byte)
	// OnWait, if set, is called whenever the guest waits for a delivery, before it is given one: with the number
	// of deliveries that it has taken. Live and replay wait at the same points with the same memory.
	OnWait func(consumed uint64)
	Strict bool // a changed input or instant of a sleep is a mismatch even where the outcome is known
	// Tuned is the seq of the entry with which the run last went on under another version, 0 if it never did. What calls before it
	// asked for may have been another version's, so that nothing is strict there. New raises it past the entries that a restart
	// has copied.
	Tuned store.Seq
	// Children is how many live children a first run may have: see abi.LiveChildren. Live.
	Children int
}

// Machine answers the calls of one activation. It is used by one goroutine at a time.
type Machine struct {
	argument
	clock
	cfg     Config
	entries []store.Entry
	rng     *rand.ChaCha8 // nil until it is asked for something

	callPos    int // every call entry before it has been matched
	delPos     int // no delivery before it can be taken any more
	consumed   uint64
	taken      map[int]bool // deliveries without a handle that were taken
	arrivals   arrivals
	handles    []handle
	open       open
	names      map[string]struct{} // of the calls among the first collected entries
	collected  int
	events     []int64
	dumped     bool
	cancelled  bool // a cooperative cancel was handed over
	query      bool // the query was handed over
	attributes attributes
	markers    markers
	beyond     bool // it has gone on from where it last waited, as of Config.Rested
	position   store.Seq

	inBody     bool
	bodyMonoNs int64
	suspension store.Suspension
	last       []byte
	outcome    Outcome
	Warnings   []string
}

// open is how many handles the guest has not been told of, and has not withdrawn.
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
	answered  bool // the update that it has brought
	delivery  int  // index of its delivery, once seen
	call      int  // index of its call
}

// Outcome is what the guest handed over by complete, fail and step_end.
type Outcome struct {
	Result    []byte
	Completed bool
	Failure   []byte // error JSON
	Failed    bool
	BodyOK    bool
	Body      []byte
	BodyEnded bool
	Cancelled bool // a cooperative cancel was handed over
	Asked     bool // the question of a query was handed over
	Reply     []byte
	// These are handed over; of too many, Body, Reply and Result are the beginning. ResultBytes is 0 unless those of a step
	// function are too many.
	BodyBytes, ReplyBytes, ResultBytes int
	ReplyOK                            bool
	Replied                            bool
	Continue                           store.Entry // the call of continue_as_new, after ErrContinue
}

// QueryRequest is a question to a run.
type QueryRequest struct {
	Name  string
	Input []byte
}

// StepInfo is what info tells of the attempt, in bodies and step instances.
type StepInfo struct {
	Name           string          `json:"name"`
	Handler        string          `json:"handler,omitempty"` // the step function; empty in bodies
	Attempt        uint32          `json:"attempt"`
	Attempts       int             `json:"attempts"`
	IdempotencyKey string          `json:"idempotency_key"`
	DeadlineMs     int64           `json:"deadline_ms"` // Unix milliseconds at which the attempt times out
	LastError      json.RawMessage `json:"last_error,omitempty"`
}

// New makes a Machine at the beginning of the journal.
func New(cfg Config) *Machine {
	if n := cfg.Started.Copied; n > 0 { // these were the calls of another run
		cfg.Tuned = max(cfg.Tuned, store.Seq(n)+1)
	}
	m := &Machine{argument: argumentOf(&cfg.Started), cfg: cfg}
	if cfg.Mode == StepFn {
		m.inBody = true
		return m
	}
	m.refresh()
	m.begins()
	m.handles = make([]handle, 0, len(m.entries)/2+1) // most have a call and a delivery
	return m
}

// Fork gives a machine that executes a body in the very instance whose guest waits for it: m is at a suspension, and
// has answered ErrSuspend. m is not used while the body runs, and goes on where it was after it. cfg is of mode Body.
//
// What the body may ask of the whole journal is gathered in m first: each fork would do that again.
func (m *Machine) Fork(cfg Config) *Machine {
	m.attributes.after(&m.cfg.Started, m.entries[:m.callPos])
	b := *m
	b.cfg, b.events, b.outcome, b.last = cfg, nil, Outcome{}, nil
	return &b
}

// seeded gives the run's random source: ChaCha8 (math/rand/v2, the generator of https://c2sp.org/chacha8rand)
// keyed by SHA-256 of the run's seed and the iteration (4 bytes, little endian).
func seeded(seed []byte, iteration uint32) *rand.ChaCha8 {
	return rand.NewChaCha8(sha256.Sum256(binary.LittleEndian.AppendUint32(slices.Clip(seed), iteration)))
}

// refresh takes what the journal has gained since.
func (m *Machine) refresh() {
	m.entries = m.cfg.Tail.Entries()
	if m.cfg.Mode == Body {
		m.entries = m.entries[:min(int(m.cfg.Until), len(m.entries))]
	}
}

// InBody tells whether a body, or a step function, is executed.
func (m *Machine) InBody() bool { return m.inBody }

// Outcome gives what the guest handed over so far.
func (m *Machine) Outcome() Outcome {
	out := m.outcome
	out.Cancelled, out.Asked = m.cancelled, m.query
	return out
}

// Suspension gives where the guest waits, after ErrSuspend.
func (m *Machine) Suspension() store.Suspension { return m.suspension }

// Consumed gives the number of deliveries that the guest has taken.
func (m *Machine) Consumed() uint64 { return m.consumed }

// Passed reports whether the guest is where it has been before: the journal holds a call that it has still to make, or
// it has not come to where it last waited. What it has used to get there does not count against its limits.
func (m *Machine) Passed() bool {
	if m.away() {
		return false
	}
	return m.cfg.Rested > 0 && !m.beyond || m.nextCall() != nil
}

// RunID gives the id of the run.
func (m *Machine) RunID() string { return m.cfg.Started.RunID }

// Input gives the run's, the step's or the query's input.
func (m *Machine) Input() []byte {
	if m.query {
		return m.cfg.Query.Input
	}
	return m.cfg.Input
}

// Told tells whether the guest knows the outcome of a handle.
func (m *Machine) Told(id int64) bool {
	h := m.handle(id)
	return h != nil && h.seen
}

// Random fills p: the same bytes on each replay, real random in bodies.
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

// Last gives the bytes of the newest answer: the result of a call that answered 0 or more, else the error JSON.
func (m *Machine) Last() []byte { return m.last }

// Answer keeps bytes as the newest answer, for Last, and gives their length.
func (m *Machine) Answer(b []byte) ([]byte, int64) {
	m.last = b
	return b, int64(len(b))
}

// RefuseWithoutEntry refuses a call that never makes an entry.
func (m *Machine) RefuseWithoutEntry(err error) int64 { return m.refuse(err) }

// refuse keeps the error for Last and gives its negated code.
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

// At returns the entry that a guest has come to: the newest call that it has made, or delivery that it has taken.
func At(m *Machine) store.Seq { return m.position }
