//go:build linux

// Package measure reads what processes use of the machine, from /proc.
package measure

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Tree is a process with all of its descendants: an engine and the servers that it has started.
type Tree struct{ Root int }

// tick is the unit of the times in /proc. It is 10 ms on every Linux system: USER_HZ is part of the kernel's interface.
const tick = 10 * time.Millisecond

// process is what one line of /proc/PID/stat says.
type process struct {
	pid, parent int
	cpu         time.Duration // its own, and that of the children that have ended and that it has waited for
}

// parseStat parses the contents of /proc/PID/stat. The command is in parentheses and may contain spaces and
// parentheses itself.
func parseStat(b []byte) (p process, err error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return p, fmt.Errorf("/proc/PID/stat has no command in parentheses: %q", b)
	}
	const parent, utime, cstime = 1, 11, 14 // places after the command
	fields := strings.Fields(string(b[end+1:]))
	if len(fields) <= cstime {
		return p, fmt.Errorf("/proc/PID/stat has %d fields after the command, want more than %d", len(fields), cstime)
	}
	var errs [2]error
	p.pid, errs[0] = strconv.Atoi(strings.TrimSpace(string(b[:open])))
	p.parent, errs[1] = strconv.Atoi(fields[parent])
	for _, f := range fields[utime : cstime+1] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return p, fmt.Errorf("/proc/PID/stat: %w", err)
		}
		p.cpu += time.Duration(n) * tick
	}
	return p, errors.Join(errs[:]...)
}

// processes lists the tree, parents before their children.
func (t Tree) processes() ([]process, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]process{}
	var tree []process
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended in between
		}
		p, err := parseStat(b)
		if err != nil {
			return nil, err
		}
		if p.pid == t.Root {
			tree = append(tree, p)
		} else {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	if len(tree) == 0 {
		return nil, fmt.Errorf("there is no process %d", t.Root)
	}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i].pid]...)
	}
	return tree, nil
}

// CPU returns the CPU time that the tree has used so far, in user and system mode, in units of 10 ms. Processes that
// have ended count, if their parent has waited for them.
func (t Tree) CPU() (time.Duration, error) {
	tree, err := t.processes()
	var sum time.Duration
	for _, p := range tree {
		sum += p.cpu
	}
	return sum, err
}

// Memory returns the bytes of memory that the tree holds: the sum of the proportional set sizes, in which a page that
// several processes share counts once. The page cache is not part of it.
func (t Tree) Memory() (int64, error) {
	tree, err := t.processes()
	var sum int64
	for _, p := range tree {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.pid))
		if err != nil {
			if p.pid == t.Root {
				return 0, err
			}
			continue // it has ended in between
		}
		n, err := pss(b)
		if err != nil {
			continue // it is ending: its memory is gone already
		}
		sum += n
	}
	return sum, err
}

// pss finds the proportional set size in the contents of /proc/PID/smaps_rollup.
func pss(b []byte) (int64, error) {
	for line := range strings.Lines(string(b)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "Pss:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("/proc/PID/smaps_rollup has no line Pss")
}

// Busy returns the CPU time that the whole machine has spent so far on anything but waiting, that which the
// hypervisor took away included.
func Busy() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	const idle, iowait, last = 4, 5, 8 // user nice system idle iowait irq softirq steal; guests count as user
	fields := strings.Fields(line)
	if len(fields) <= last {
		return 0, fmt.Errorf("/proc/stat begins with %q, want at least %d figures", line, last)
	}
	var sum time.Duration
	for i := 1; i <= last; i++ {
		if i == idle || i == iowait {
			continue
		}
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// Thread returns the CPU time of the calling thread, to which the caller has locked its goroutine.
func Thread() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_THREAD, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
