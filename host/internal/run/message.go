// Runs do nothing to each other directly: what one wants of another is a command, which goes out in the commit of the entry that
// asked for it, and is taken in by the receiver in the commit of its effect. So it happens once, whatever crashes between.

package run

import (
	"encoding/json"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Message is the data of a command, as JSON. Each kind uses some of the fields.
type Message struct {
	Sender      store.Incarnation `json:"sender"`
	Iteration   uint32            `json:"iteration"` // of the sender; of an answer, of its receiver
	Handle      int64             `json:"handle,omitempty"`
	Workflow    string            `json:"workflow,omitempty"`
	Version     uint32            `json:"version,omitempty"`
	Latest      bool              `json:"latest,omitempty"`  // the latest version is asked for
	Derived     bool              `json:"derived,omitempty"` // of a child: its id is made of the parent's, and not chosen
	Module      string            `json:"module,omitempty"`  // of the sender: the version that comes of the same upload
	Payload     []byte            `json:"payload,omitempty"`
	TimeoutMs   int64             `json:"timeout_ms,omitempty"`
	Attributes  map[string]string `json:"attributes,omitempty"`
	Memo        []byte            `json:"memo,omitempty"`
	TraceParent string            `json:"traceparent,omitempty"` // of a child: the span of its parent
	Depth       int               `json:"depth,omitempty"`
	Status      store.Status      `json:"status,omitempty"`
	Failure     json.RawMessage   `json:"failure,omitempty"`
	NeverWas    bool              `json:"never_was,omitempty"` // of the end of a child: there never was a run of it
	Taken       bool              `json:"taken,omitempty"`     // of the end of a child: another run has its id
	Limited     bool              `json:"limited,omitempty"`   // of the end of a child: a quota has refused its start
	Signal      string            `json:"signal,omitempty"`
	Token       string            `json:"token,omitempty"`
	HookOptions json.RawMessage   `json:"hook_options,omitempty"`
	Limit       *journal.Limit    `json:"limit,omitempty"` // of a run that asks for a slot
	Keep        bool              `json:"keep,omitempty"`  // of a run that leaves the queue because it is paused
}

func (m Message) bytes() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings, numbers, bytes, and JSON that was checked
	}
	return b
}

// The id of a command is made of the sender's incarnation and iteration, and of a number: the seq of the entry that
// asked for it times commandKinds, plus the kind. The answer to a command has the id of the command with the kind of
// the answer.
const commandKinds = 16

// endCommand is the seq in the id of what a run tells its parent at its end, plus that of the retry before it, if there is
// one: a parent that was retried, too, waits for what comes of the retry.
const endCommand = 1 << 40

// retryShift makes the seq of a command that a retry repeats: the seq of the retry, shifted so far, plus the seq of the
// call. A journal has fewer entries than this has numbers.
const retryShift = 20

// startAgain is added to the seq with which a retry starts a child: the parent has asked for it under that seq, and the answers
// to both have ids of their own.
const startAgain = 1 << 41

func commandID(i store.Incarnation, iteration uint32, seq store.Seq, kind store.CommandKind) store.CommandID {
	return store.CommandID{Incarnation: i, Iteration: iteration, Seq: seq*commandKinds + store.Seq(kind)}
}

// answerID returns the id of the answer to a command.
func answerID(cmd *store.Command, kind store.CommandKind) store.CommandID {
	id := cmd.ID
	id.Seq = id.Seq - id.Seq%commandKinds + store.Seq(kind)
	return id
}
