package limits

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// Parts of a queue, as the first byte of the keys of its cells.
//
//	q                                        the queue: counts
//	w lane, priority u8, seq u64be           a waiting run
//	i run id                                 the position of a waiting run: the rest of its key, incarnation
//	k run id                                 the position that a paused run gets when it asks again, as in i
//	h run id                                 a run that holds a slot: incarnation, names of its counters
//	l lane                                   a lane: the waiting runs with the same keys
//	r priority u8, seq u64be, lane           a ready lane, ordered by the priority of its first run
//	f seq u64be, lane                        the same, ordered by seq alone
//	b counter, lane                          a lane that waits for a counter
//	c counter                                a counter: runs in progress under a rule with a key, or recent ones under a rate
//	x ms u64be, counter                      when a counter is due
//
// Lanes and counters are named by 16 bytes of a SHA-256. A priority p is stored as 127-p, so the greatest comes first.
const (
	partQueue    = "q"
	partWaiter   = "w"
	partPosition = "i"
	partKept     = "k"
	partHolder   = "h"
	partLane     = "l"
	partReady    = "r"
	partTurn     = "f"
	partBlocked  = "b"
	partCounter  = "c"
	partExpiry   = "x"
)

// nameBytes is the length of the name of a lane or counter.
const nameBytes = 16

// queue is the record of a queue.
type queue struct {
	Revision uint64        `json:"revision"` // of the newest commit
	Waiting  int64         `json:"waiting,omitempty"`
	Held     int64         `json:"held,omitempty"`
	Next     uint64        `json:"next"` // the next seq
	Given    uint64        `json:"given"`
	Ready    map[int]int64 `json:"ready,omitempty"` // ready lanes, by priority
	WakeMs   int64         `json:"wake,omitempty"`  // its key in the wake index, 0 = none
	Rules    []byte        `json:"rules,omitempty"` // digest of the rules as of the newest commit
	// Free is set after a change of the rules: blocked lanes must be unblocked, from this key on.
	Free []byte `json:"free,omitempty"`
}

// lane is the record of a lane.
type lane struct {
	Waiting int64             `json:"n"`
	Head    []byte            `json:"head"` // priority and seq of its first run
	Seq     uint64            `json:"seq"`  // position in the order of turns
	Blocked []byte            `json:"blocked,omitempty"`
	Keys    map[string][]byte `json:"keys,omitempty"` // digests of the keys, by path
}

// priority returns the stored priority of the lane's first run.
func (l *lane) priority() byte { return l.Head[0] }

// waiter is a waiting run.
type waiter struct {
	Run         string            `json:"run"`
	Incarnation store.Incarnation `json:"inc"`
	Iteration   uint32            `json:"it,omitempty"` // of the command that asked
	Seq         store.Seq         `json:"seq"`
}

// counter is the record of a counter.
type counter struct {
	Rule    string `json:"rule"` // name of the rule
	Held    int64  `json:"held,omitempty"`
	Blocked int64  `json:"blocked,omitempty"` // lanes that wait for it
	// Log has the instants at which a rate admitted runs, as varints of the differences.
	Log   []byte `json:"log,omitempty"`
	DueMs int64  `json:"due,omitempty"` // its cell in part x, 0 = none

	read bool    // the log was decoded into at
	at   []int64 // instants
}

// times returns the instants of the log within the window before now. An instant in the future counts as now: the clock was
// set back.
func (c *counter) times(now, windowMs int64) []int64 {
	if !c.read {
		c.read = true
		at := int64(0)
		for b := c.Log; len(b) > 0; {
			d, n := binary.Varint(b)
			if n <= 0 {
				break
			}
			at, b = at+d, b[n:]
			c.at = append(c.at, at)
		}
	}
	for i := len(c.at) - 1; i >= 0 && c.at[i] > now; i-- {
		c.at[i] = now
	}
	old, _ := slices.BinarySearch(c.at, now-windowMs+1)
	c.at = c.at[old:]
	return c.at
}

// encode writes the log.
func (c *counter) encode() {
	if !c.read {
		return
	}
	c.Log = nil
	before := int64(0)
	for _, at := range c.at {
		c.Log = binary.AppendVarint(c.Log, at-before)
		before = at
	}
}

// nameOf returns the name of a lane or counter: 16 bytes of the SHA-256 of the texts and their lengths.
func nameOf(texts ...string) string {
	h := sha256.New()
	var n [8]byte
	for _, text := range texts {
		binary.BigEndian.PutUint64(n[:], uint64(len(text)))
		_, _ = h.Write(n[:])
		_, _ = h.Write([]byte(text))
	}
	return string(h.Sum(nil)[:nameBytes])
}

// laneOf returns the name of the lane of runs with these keys.
func laneOf(keys map[string]string) string {
	var texts []string
	for _, path := range slices.Sorted(maps.Keys(keys)) {
		texts = append(texts, path, keys[path])
	}
	return nameOf(texts...)
}

// counterOf returns the name of the counter of a rule for a lane.
func (r *Rule) counterOf(l *lane) string {
	if r.Per == "" {
		return nameOf(r.name())
	}
	return nameOf(r.name(), string(l.Keys[r.Per]))
}

// priorityText returns a priority as stored, in one byte.
func priorityText(p int) string {
	return string([]byte{byte(127 - min(max(p, -MaxPriority), MaxPriority))})
}

func seqBytes(seq uint64) string { return string(binary.BigEndian.AppendUint64(nil, seq)) }

// readyKey and turnKey return the keys of the cells of a ready lane.
func readyKey(name string, l *lane) string {
	return partReady + string(l.Head[:1]) + seqBytes(l.Seq) + name
}

func turnKey(name string, l *lane) string { return partTurn + seqBytes(l.Seq) + name }

func expiryKey(name string, ms int64) string { return partExpiry + seqBytes(uint64(ms)) + name }

func encode(x any) []byte {
	b, err := json.Marshal(x)
	if err != nil {
		panic(err) // numbers, text and bytes always encode
	}
	return b
}

// decodeInto decodes a record; what names it in the error.
func decodeInto(what string, b []byte, x any) error {
	if err := json.Unmarshal(b, x); err != nil {
		return fmt.Errorf("%w: %s of a queue: %w", store.ErrCorrupt, what, err)
	}
	return nil
}
