package limits

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/wfhost/wfhost/store"
)

// grainsPerWindow is how many grains a window has at least. Attempts that begin within 1/grainsPerWindow of a window share a
// grain, which counts until the last of them leaves the window. So the size of a counter does not depend on its rate, and an
// attempt waits at most 1/grainsPerWindow of the window longer than with exact instants.
const grainsPerWindow = 128

// grain counts the attempts that began from first to last, in Unix milliseconds.
type grain struct {
	first, last int64
	n           int
}

// attemptWindow counts the attempts of one rule, or of one key of a rule.
type attemptWindow struct {
	rule    Rule
	name    string    // of its cell
	most    int       // of held: this host's part of the maximum
	held    int       // attempts that hold a slot
	grains  []grain   // attempts that began within the window, oldest first
	loaded  bool      // grains were read from the store; always true without a window
	lanes   int       // number of lanes that use the counter
	blocked list.List // of *attemptLane: those that wait for the counter, first come first
}

func newAttemptWindow(r Rule, key string, s Share) *attemptWindow {
	sum := sha256.Sum256([]byte(ruleName(&r) + "\x00" + key))
	return &attemptWindow{rule: r, name: ratePart + string(sum[:16]), most: int(s.Of(int64(r.Max))), loaded: r.WindowMs == 0}
}

// ruleName identifies what a rule counts, whatever its maximum.
func ruleName(r *Rule) string { return strconv.FormatInt(r.WindowMs, 10) + " " + r.Per }

// trim drops the grains that have left the window. A grain in the future counts as now: the clock was set back.
func (c *attemptWindow) trim(now int64) {
	old := 0
	for i := range c.grains {
		m := &c.grains[i]
		m.first, m.last = min(m.first, now), min(m.last, now)
		if m.last <= now-c.rule.WindowMs {
			old = i + 1
		}
	}
	c.grains = c.grains[old:]
}

// full reports whether no further attempt may begin now. It returns false for a counter that has not been read.
func (c *attemptWindow) full(now int64) bool {
	switch {
	case c.rule.WindowMs == 0:
		return c.held >= c.most
	case !c.loaded:
		return false
	}
	c.trim(now)
	return c.begun() >= c.rule.Max
}

// begun returns the number of attempts within the window.
func (c *attemptWindow) begun() (n int) {
	for _, m := range c.grains {
		n += m.n
	}
	return n
}

// freeAt returns when a full rate lets another attempt begin.
func (c *attemptWindow) freeAt() int64 {
	n, at := c.begun(), int64(0)
	for _, m := range c.grains {
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
	if n := len(c.grains); n > 0 && now-c.grains[n-1].first < c.rule.WindowMs/grainsPerWindow {
		c.grains[n-1].last = now
		c.grains[n-1].n++
		return
	}
	c.grains = append(c.grains, grain{now, now, 1})
}

// cell returns the counter as stored: the instant at which its last grain expires, and the grains.
func (c *attemptWindow) cell() store.Cell {
	end := int64(0)
	if n := len(c.grains); n > 0 {
		end = c.grains[n-1].last + c.rule.WindowMs
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(end))
	before := int64(0)
	for _, m := range c.grains {
		b = binary.AppendVarint(b, m.first-before)
		b = binary.AppendVarint(b, m.last-m.first)
		b = binary.AppendUvarint(b, uint64(m.n))
		before = m.last
	}
	return store.Cell{Key: []byte(c.name), Value: b}
}

// parseAttemptCell reads what cell wrote.
func parseAttemptCell(b []byte) (endMs int64, grains []grain, err error) {
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
		m := grain{at + first, at + first + length, int(n)}
		at = m.last
		grains = append(grains, m)
	}
	return endMs, grains, nil
}
