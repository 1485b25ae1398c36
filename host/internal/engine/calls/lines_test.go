package calls

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
)

// kept collects lines.
func kept(into *[]string) *Lines {
	return &Lines{Keep: func(n uint64, level int32, text string) {
		*into = append(*into, fmt.Sprint(n, " ", level, " ", text))
	}}
}

func TestLines(t *testing.T) {
	var got []string
	l := kept(&got)
	l.Kept = func(n uint64) bool { return n == 1 }
	l.Output(1, []byte("one\ntwo\nthr"))
	l.Log(100, []byte("a\xff"))
	l.Log(-100, []byte("b"))
	l.Output(2, []byte("err"))
	l.Output(1, []byte("ee"))
	l.Flush()
	l.Flush()
	want := []string{
		fmt.Sprint(0, " ", abi.LogInfo, " one"), fmt.Sprint(2, " ", abi.LogError, " a�"), fmt.Sprint(3, " ", abi.LogDebug, " b"),
		fmt.Sprint(4, " ", abi.LogInfo, " three"), fmt.Sprint(5, " ", abi.LogWarn, " err"),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if l.Printed() != nil {
		t.Error("standard output is kept although it is not the result")
	}
}

// TestBounds prints endlessly, with and without line ends.
func TestBounds(t *testing.T) {
	for _, end := range []string{"\n", ""} {
		var got []string
		l := kept(&got)
		l.Command = true
		p := []byte(strings.Repeat("x", 64<<10-1) + end)
		for range 100 {
			l.Output(1, p)
			l.Output(2, p[1:])
		}
		if n := len(strings.Join(got, "")); n > abi.MaxLogBytes+100*len(got) {
			t.Errorf("with %q, %d bytes of lines were kept", end, n)
		}
		if n := l.Bytes(); n < abi.MaxPayloadBytes || n > 4*abi.MaxPayloadBytes {
			t.Errorf("with %q, it holds %d", end, n)
		}
		if n := len(l.Printed()); n <= abi.MaxPayloadBytes || !bytes.HasPrefix(l.Printed(), p) {
			t.Errorf("with %q, %d bytes of the result are kept: nobody sees that it is too large", end, n)
		}
	}
}
