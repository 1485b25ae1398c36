package calls

import (
	"bytes"
	"strings"

	"github.com/wfhost/wfhost/abi"
)

// Lines handles what a guest logs and prints, as lines numbered from the guest's beginning.
type Lines struct {
	Keep    func(n uint64, level int32, text string) // stores a line
	Kept    func(n uint64) bool                      // reports whether a line was stored or dropped before; nil = none was
	Drop    func(n uint64)                           // records that a line was dropped, so that no replay stores it; may be nil
	Command bool                                     // output to descriptor 1 is also the result

	lines    uint64
	logBytes int
	stdout   []byte
	partial  [2][]byte // unfinished lines of descriptors 1 and 2
	said     Tail
}

// Log handles a line. Lines over the limit of an activation are dropped for good; lines repeated by a replay do not
// count.
func (l *Lines) Log(level int32, text []byte) int64 {
	n := l.lines
	l.lines++
	if l.Kept != nil && l.Kept(n) {
		return 0
	}
	l.logBytes += len(text) + 1
	if l.logBytes > abi.MaxLogBytes {
		if l.Drop != nil {
			l.Drop(n)
		}
		return 0
	}
	l.Keep(n, min(max(level, abi.LogDebug), abi.LogError), strings.ToValidUTF8(string(text), "�"))
	return 0
}

// Output handles what the guest prints: whole lines go to the log, and for a command descriptor 1 is also the result.
func (l *Lines) Output(fd uint32, p []byte) {
	if fd == Stderr {
		l.said.Write(p)
	}
	if fd == Stdout && l.Command && len(l.stdout) <= abi.MaxPayloadBytes {
		l.stdout = append(l.stdout, p...)
	}
	part := &l.partial[fd-1]
	*part = append(*part, p...)
	for {
		line, rest, ok := bytes.Cut(*part, []byte{'\n'})
		if !ok && len(*part) < abi.MaxLogBytes {
			return
		}
		l.Log(levelOf(fd), line)
		*part = rest
	}
}

func levelOf(fd uint32) int32 {
	if fd == Stderr {
		return abi.LogWarn
	}
	return abi.LogInfo
}

// Frozen returns a copy for a guest that continues in a later activation: with that activation's full log limit, and
// without the functions.
func (l *Lines) Frozen() Lines {
	f := *l
	f.Keep, f.Kept, f.Drop, f.logBytes, f.said = nil, nil, nil, 0, l.said.copied()
	return f
}

// Flush logs unfinished lines.
func (l *Lines) Flush() {
	for i := range l.partial {
		if len(l.partial[i]) > 0 {
			l.Log(levelOf(uint32(i+1)), l.partial[i])
			l.partial[i] = nil
		}
	}
}

// Printed returns the output to descriptor 1 if that is the result. Output far over the limit of a result is
// truncated, but stays over the limit.
func (l *Lines) Printed() []byte { return l.stdout }

// Explain returns the reason of a guest's failure, with the last output of the guest to descriptor 2.
func (l *Lines) Explain(message string) string { return l.said.Explain(message) }

// Bytes estimates the bytes held for output.
func (l *Lines) Bytes() int64 {
	return int64(cap(l.stdout) + cap(l.partial[0]) + cap(l.partial[1]) + cap(l.said.b) + cap(l.said.reason))
}
