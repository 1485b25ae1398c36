package limits

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/wfhost/wfhost/store"
)

// grains is the minimum number of parts of a window. Attempts that begin within one part share a mark, which counts until
// the last of them leaves the window. So a counter has about grains marks at most, whatever its rate, and an attempt waits
// at most one part longer than with exact instants.
const grains = 128

// attemptMark counts attempts that began between first and last, in Unix milliseconds.
type attemptMark struct {
	first, last int64
	n           int
}

// attemptWindow counts the attempts of one rule, or of one key of a rule.
type attemptWindow struct {
	rule    Rule
	name    string        // of its cell
	held    int           // attempts that hold a slot
	marks   []attemptMark // attempts that began within the window, oldest first
	loaded  bool          // marks were read from the store; always true without a window
	lanes   int           // number of lanes that use the counter
	blocked list.List     // of *attemptLane: those that wait for the counter, first come first
}

func newAttemptWindow(r Rule, key string) *attemptWindow {
	sum := sha256.Sum256([]byte(ruleName(&r) + "\x00" + key))
	return &attemptWindow{rule: r, name: markPart + string(sum[:16]), loaded: r.WindowMs == 0}
}

// ruleName identifies what a rule counts, whatever its maximum.
func ruleName(r *Rule) string { return strconv.FormatInt(r.WindowMs, 10) + " " + r.Per }

// trim drops the marks that have left the window. A mark in the future counts as now: the clock was set back.
func (c *attemptWindow) trim(now int64) {
	old := 0
	for i := range c.marks {
		m := &c.marks[i]
		m.first, m.last = min(m.first, now), min(m.last, now)
		if m.last <= now-c.rule.WindowMs {
			old = i + 1
		}
	}
	c.marks = c.marks[old:]
}

// full reports whether no further attempt may begin now. It returns false for a counter that has not been read.
func (c *attemptWindow) full(now int64) bool {
	switch {
	case c.rule.WindowMs == 0:
		return c.held >= c.rule.Max
	case !c.loaded:
		return false
	}
	c.trim(now)
	return c.begun() >= c.rule.Max
}

// begun returns the number of attempts in the marks.
func (c *attemptWindow) begun() (n int) {
	for _, m := range c.marks {
		n += m.n
	}
	return n
}

// freeAt returns when a full rate lets another attempt begin.
func (c *attemptWindow) freeAt() int64 {
	n, at := c.begun(), int64(0)
	for _, m := range c.marks {
		if n < c.rule.Max {
			break
		}
		n, at = n-m.n, m.last+c.rule.WindowMs
	}
	return at
}

// count counts an attempt that begins.
func (c *attemptWindow) count(now int64) {
	c.held++
	if c.rule.WindowMs == 0 {
		return
	}
	c.trim(now)
	if n := len(c.marks); n > 0 && now-c.marks[n-1].first < c.rule.WindowMs/grains {
		c.marks[n-1].last = now
		c.marks[n-1].n++
		return
	}
	c.marks = append(c.marks, attemptMark{now, now, 1})
}

// cell returns the counter as stored: the instant at which its last mark expires, and the marks.
func (c *attemptWindow) cell() store.Cell {
	end := int64(0)
	if n := len(c.marks); n > 0 {
		end = c.marks[n-1].last + c.rule.WindowMs
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(end))
	before := int64(0)
	for _, m := range c.marks {
		b = binary.AppendVarint(b, m.first-before)
		b = binary.AppendVarint(b, m.last-m.first)
		b = binary.AppendUvarint(b, uint64(m.n))
		before = m.last
	}
	return store.Cell{Key: []byte(c.name), Value: b}
}

// parseAttemptCell reads what cell wrote.
func parseAttemptCell(b []byte) (endMs int64, marks []attemptMark, err error) {
	wrong := fmt.Errorf("%w: the instants of a handler's attempts", store.ErrCorrupt)
	if len(b) < 8 {
		return 0, nil, wrong
	}
	endMs = int64(binary.BigEndian.Uint64(b))
	at := int64(0)
	for b = b[8:]; len(b) > 0; {
		first, i := binary.Varint(b)
		if i <= 0 {
			return 0, nil, wrong
		}
		length, j := binary.Varint(b[i:])
		if j <= 0 {
			return 0, nil, wrong
		}
		n, k := binary.Uvarint(b[i+j:])
		if k <= 0 || n > MaxRate {
			return 0, nil, wrong
		}
		b = b[i+j+k:]
		m := attemptMark{at + first, at + first + length, int(n)}
		at = m.last
		marks = append(marks, m)
	}
	return endMs, marks, nil
}
