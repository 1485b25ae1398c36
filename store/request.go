package store

import "context"

// Request is a start, a signal or a cancel that a program has put into the store, in a transaction of its own. The host does
// it once it is committed.
type Request struct {
	ID   int64
	Kind RequestKind
	// Token is random. It becomes the incarnation of the run that a start creates, and the idempotency key of a signal without
	// one. So the host recognizes a request that it has done before.
	Token Incarnation
	Run   RunKey
	Name  string // workflow of a start, name of a signal
	Data  []byte // input or payload
	RequestOptions
	Attempts int // how often the host has tried
}

// RequestOptions are the options of a request. All but IdempotencyKey are for starts.
type RequestOptions struct {
	Version        uint32            `json:"version"` // 0 = the latest
	Attributes     map[string]string `json:"attributes"`
	Memo           string            `json:"memo"`       // JSON; empty = none
	AtUnixMs       int64             `json:"at_ms"`      // earliest instant of the first activation; 0 = at once
	TimeoutMs      int64             `json:"timeout_ms"` // 0 = none
	OnConflict     string            `json:"on_conflict"`
	Priority       int               `json:"priority"`
	TraceParent    string            `json:"traceparent"`
	IdempotencyKey string            `json:"idempotency_key"` // of a signal
}

// RequestKind says what a request asks for.
type RequestKind uint8

// The kinds. Numbers are never reused.
const (
	RequestStart  RequestKind = 1
	RequestSignal RequestKind = 2
	RequestCancel RequestKind = 3
)

// String returns the name of the kind.
func (k RequestKind) String() string {
	return [...]string{RequestStart: "start", RequestSignal: "signal", RequestCancel: "cancel"}[k]
}

// RequestResult says what became of an attempt of a request.
type RequestResult struct {
	ID      int64
	Reason  string // why it is not done; empty = done
	AgainMs int64  // when to try again, in milliseconds from now; 0 with a Reason = never, it is refused
}

// Requesting is implemented by stores into which programs can put requests.
type Requesting interface {
	// Requests returns requests whose next attempt is due, of runs of the given partitions, nil for all, but of no run in skip:
	// those of at most limit runs, by run in the order in which they were made. A request is not returned while an earlier one of
	// its run waits for its next attempt. Nothing keeps a second call from returning the same requests.
	Requests(ctx context.Context, partitions []PartitionID, skip []RunKey, limit int) ([]Request, error)
	// EndRequests records results, durable on return. It deletes the requests that are done. Results for deleted requests are
	// ignored.
	EndRequests(ctx context.Context, results []RequestResult) error
	// Listen calls arrived whenever a request may have become due, until ctx is done. It may miss requests while the store cannot
	// be reached or cannot notify, so the host also calls Requests once a second.
	Listen(ctx context.Context, arrived func())
}
