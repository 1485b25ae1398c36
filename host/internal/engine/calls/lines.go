package calls

import (
	"bytes"
	"strings"

	"github.com/wfhost/wfhost/abi"
)

// Lines is what a guest logs and prints, in lines that are counted from its beginning.
type Lines struct {
	Keep    func(n uint64, level int32, text string) // keeps a line
	Kept    func(n uint64) bool                      // reports that a line was kept or dropped before; nil = none was
	Drop    func(n uint64)                           // notes that a line was dropped, so that no replay keeps it; may be nil
	Command bool                                     // what is printed to descriptor 1 is the result, too

	lines    uint64
	logBytes int
	stdout   []byte
	partial  [2][]byte // of lines written to descriptors 1 and 2
	said     Tail
}

// Log takes a line. What is over the limit of an activation is dropped for good; lines that a replay repeats do not count.
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

// Output takes what the guest prints: whole lines go to the log, and descriptor 1 is the result of a command.
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

// Frozen returns the lines of a guest that is to go on later, with what it may log in an activation, and without the
// functions.
func (l *Lines) Frozen() Lines {
	f := *l
	f.Keep, f.Kept, f.Drop, f.logBytes, f.said = nil, nil, nil, 0, l.said.copied()
	return f
}

// Flush logs the last line of what the guest printed, if it has no end.
func (l *Lines) Flush() {
	for i := range l.partial {
		if len(l.partial[i]) > 0 {
			l.Log(levelOf(uint32(i+1)), l.partial[i])
			l.partial[i] = nil
		}
	}
}

// Printed returns what was printed to descriptor 1, if that is the result. What is over the limit of a result is cut off
// somewhere beyond it.
func (l *Lines) Printed() []byte { return l.stdout }

// Explain returns why the guest broke down, with what it said of that.
func (l *Lines) Explain(message string) string { return l.said.Explain(message) }

// Held returns what is kept of all that was printed, in bytes, about.
func (l *Lines) Held() int64 {
	return int64(cap(l.stdout) + cap(l.partial[0]) + cap(l.partial[1]) + cap(l.said.b) + cap(l.said.reason))
}
