// Runs never act on each other directly. A run sends a command in the commit of the entry that asks for it, and the
// receiver acknowledges the command in the commit of its effect. So each command takes effect once, whatever crashes
// in between.

package run

import (
	"encoding/json"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// Message is the data of a command, as JSON. Each kind uses some of the fields.
type Message struct {
	Sender      store.Incarnation `json:"sender"`
	Iteration   uint32            `json:"iteration"` // of the sender; in an answer, of the receiver
	Handle      int64             `json:"handle,omitempty"`
	Workflow    string            `json:"workflow,omitempty"`
	Version     uint32            `json:"version,omitempty"`
	Latest      bool              `json:"latest,omitempty"`  // the sender asks for the latest version
	Derived     bool              `json:"derived,omitempty"` // of a child: its id is derived from the parent's, not chosen
	Module      string            `json:"module,omitempty"`  // of the sender, to find the version from the same upload
	Payload     []byte            `json:"payload,omitempty"`
	TimeoutMs   int64             `json:"timeout_ms,omitempty"`
	Attributes  map[string]string `json:"attributes,omitempty"`
	Memo        []byte            `json:"memo,omitempty"`
	TraceParent string            `json:"traceparent,omitempty"` // of a child: the span of its parent
	Depth       int               `json:"depth,omitempty"`
	Status      store.Status      `json:"status,omitempty"`
	Failure     json.RawMessage   `json:"failure,omitempty"`
	NeverWas    bool              `json:"never_was,omitempty"` // of the end of a child: no run ever had its id
	Taken       bool              `json:"taken,omitempty"`     // of the end of a child: another run has its id
	Limited     bool              `json:"limited,omitempty"`   // of the end of a child: a quota refused its start
	Signal      string            `json:"signal,omitempty"`
	Token       string            `json:"token,omitempty"`
	HookOptions json.RawMessage   `json:"hook_options,omitempty"`
	Limit       *journal.Limit    `json:"limit,omitempty"` // of a run that asks for a slot
	Keep        bool              `json:"keep,omitempty"`  // of a run that leaves the queue because it is paused
}

func (m Message) bytes() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings, numbers, bytes and checked JSON always encode
	}
	return b
}

// commandKinds is a factor in command ids, and so the bound for store.CommandKind. An id consists of the sender's
// incarnation and iteration, and a number: the seq of the entry that sent the command times commandKinds, plus the kind.
// An answer has the id of its command with the answer's kind.
const commandKinds = 16

// endCommand is the seq in the id of the command that tells a parent how its child ended. The seq of the latest retry
// or adoption before the end, if any, is added, so that a parent that was also retried gets the outcome of the retry.
const endCommand = 1 << 40

// retryShift makes the seq of a command that a retry repeats: the seq of the retry shifted left by retryShift, plus
// the seq of the call. A journal has fewer than 1<<retryShift entries.
const retryShift = 20

// startAgain is added to the seq of the command by which a retry starts a child. The parent has already used the seq
// without it to ask for the child, and the answers to the two commands need different ids.
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
