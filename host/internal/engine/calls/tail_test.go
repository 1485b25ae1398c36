package calls

import (
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
)

// TestExplain says why guests in some languages crashed.
func TestExplain(t *testing.T) {
	long := strings.Repeat("x", 2*maxSaidBytes)
	for name, c := range map[string]struct{ printed, want string }{
		"nothing":   {"", "unreachable"},
		"spaces":    {"\n \n\r\n", "unreachable"},
		"a line":    {"thread 'main' panicked at src/main.rs:5:5:\r\nboom\r\n", "thread 'main' panicked at src/main.rs:5:5:\nboom (unreachable)"},
		"no end":    {"boom", "boom (unreachable)"},
		"many":      {"1\n2\n3\n\n4\n", "2\n3\n4 (unreachable)"},
		"not UTF-8": {"a\xffb", "a\uFFFDb (unreachable)"},
		"too long":  {long, long[:maxSaidBytes] + "… (unreachable)"},
		"Go": {"a warning\npanic: first\n\ngoroutine 1 [running]:\nmain.f()\n\nfatal error: out of memory\nruntime stack:\n\ngoroutine 2 [running]:\n" +
			"main.g()\n", "fatal error: out of memory\nruntime stack: (unreachable)"},
		"Go, at once": {"panic: boom\n\tpanic: again\n\ngoroutine 1 [running]:\n", "panic: boom\npanic: again (unreachable)"},
		"Go, far":     {strings.Repeat("y", 3*maxTailBytes) + "\npanic: boom\n\ngoroutine 1", "panic: boom (unreachable)"},
		"Go, long stacks": {strings.Repeat("z", 100) + "\nfatal error: stack overflow\n\nruntime stack:\n" + strings.Repeat("main.f()\n\tmain.go:7 +0x1\n", maxTailBytes/8),
			"fatal error: stack overflow (unreachable)"},
		"Go, went on": {"panic: recovered\n" + strings.Repeat("an ordinary line\n", maxTailBytes/8) + "there is no file\n",
			"an ordinary line\nan ordinary line\nthere is no file (unreachable)"},
	} {
		for _, size := range []int{1, 100, maxTailBytes, 1 << 20} {
			l := kept(new([]string))
			for p := c.printed; p != ""; {
				n := min(size, len(p))
				l.Output(Stdout, []byte("not this\n"))
				l.Output(Stderr, []byte(p[:n]))
				p = p[n:]
			}
			if got := l.Explain("unreachable"); got != c.want {
				t.Errorf("%s, %d bytes at a time: %q, want %q", name, size, got, c.want)
			}
			if cap(l.said.b) > 2*maxTailBytes || l.Bytes() < int64(cap(l.said.b)) {
				t.Errorf("%s: %d bytes are kept, and %d are said to be", name, cap(l.said.b), l.Bytes())
			}
			f := l.Frozen()
			f.Keep = l.Keep
			f.Output(Stderr, []byte("\nand more"))
			if got := l.Explain("unreachable"); got != c.want {
				t.Errorf("%s: what was frozen has changed: %q", name, got)
			}
			if size == 1 && len(c.printed) > 10*abi.MaxNameBytes {
				break
			}
		}
	}
}
