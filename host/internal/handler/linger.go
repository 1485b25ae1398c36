package handler

import (
	"time"

	"github.com/wfhost/wfhost/host/internal/clock"
)

// A waiting attempt lingers at first: its run stays in memory, and is not committed as waiting. So a burst of a few
// milliseconds costs no extra commits and loads.
const (
	// lingerTime is the maximum time that an attempt lingers, by the machine's clock.
	lingerTime = time.Second
	// DefaultLingering is the default of Config.Lingering.
	DefaultLingering = 1024
)

// lingering holds the lingering attempts. The mutex of the Registry guards it.
type lingering struct {
	most  int // no further attempt lingers
	n     int
	queue []lingerer // in order of arrival, including attempts that no longer linger
	armed bool       // a timer will call Registry.expire
}

type lingerer struct {
	w     *waiter
	until time.Time
}

// lingerLocked makes an attempt linger, unless too many do.
func (r *Registry) lingerLocked(w *waiter) {
	l := &r.lingering
	if l.n >= l.most {
		return
	}
	l.n++
	w.lingers = true
	l.queue = append(l.queue, lingerer{w, clock.System().Now().Add(lingerTime)})
	if !l.armed {
		l.armed = true
		clock.AfterFunc(clock.System(), lingerTime, r.expire)
	}
}

// end ends the lingering of an attempt, if it lingers.
func (l *lingering) end(w *waiter) {
	if w.lingers {
		w.lingers = false
		l.n--
	}
}

// expire ends the lingering of the attempts whose time is up, and reports to their runs that they wait.
func (r *Registry) expire() {
	r.mu.Lock()
	l, now := &r.lingering, clock.System().Now()
	var over []askKey
	for len(l.queue) > 0 && (!l.queue[0].w.lingers || !l.queue[0].until.After(now)) {
		if w := l.queue[0].w; w.lingers {
			l.end(w)
			over = append(over, w.askKey)
		}
		l.queue[0] = lingerer{}
		l.queue = l.queue[1:]
	}
	if l.armed = len(l.queue) > 0; l.armed {
		clock.AfterFunc(clock.System(), l.queue[0].until.Sub(now), r.expire)
	}
	r.mu.Unlock()
	for _, key := range over {
		r.cfg.Runs.Queued(key.run, key.handle)
	}
}
