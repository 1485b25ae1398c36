package doctor

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// proc returns the /proc folder of a process, of this one if pid is 0.
func proc(pid int) string {
	if pid == 0 {
		return "/proc/self"
	}
	return fmt.Sprintf("/proc/%d", pid)
}

// limitOf returns a soft limit of a process, as /proc names it.
func limitOf(pid int, name string) (uint64, bool) {
	b, err := os.ReadFile(proc(pid) + "/limits")
	if err != nil && pid != 0 { // a process of another user
		b, err = os.ReadFile(proc(0) + "/limits")
	}
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return 0, false
		}
		if fields[0] == "unlimited" {
			return math.MaxUint64, true
		}
		n, err := strconv.ParseUint(fields[0], 10, 64)
		return n, err == nil
	}
	return 0, false
}

func fileLimit(pid int) (uint64, bool)    { return limitOf(pid, "Max open files") }
func addressLimit(pid int) (uint64, bool) { return limitOf(pid, "Max address space") }

// strictOvercommit reports whether the kernel counts memory that is reserved and not used.
func strictOvercommit() bool {
	b, err := os.ReadFile("/proc/sys/vm/overcommit_memory")
	return err == nil && strings.TrimSpace(string(b)) == "2"
}

// memoryLimit returns how much memory a process may use and where the limit comes from, empty if unknown.
func memoryLimit(pid int) (limit uint64, from string) {
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		if n, ok := memTotal(b); ok {
			limit, from = n, "of the machine"
		}
	}
	b, err := os.ReadFile(proc(pid) + "/cgroup")
	if err != nil {
		return limit, from
	}
	if n, ok := cgroupLimit("/sys/fs/cgroup", b); ok && (from == "" || n < limit) {
		return n, "of its cgroup"
	}
	return limit, from
}

// memTotal reads the memory of the machine from /proc/meminfo.
func memTotal(meminfo []byte) (uint64, bool) {
	for line := range bytes.Lines(meminfo) {
		if fields := strings.Fields(string(line)); len(fields) > 1 && fields[0] == "MemTotal:" {
			n, err := strconv.ParseUint(fields[1], 10, 64)
			return n << 10, err == nil
		}
	}
	return 0, false
}

// cgroupLimit returns the lowest memory limit of a process's cgroup and its ancestors. of is the process's
// /proc/PID/cgroup, root is the mount point of cgroups, version 1 or 2.
func cgroupLimit(root string, of []byte) (limit uint64, ok bool) {
	lines := bufio.NewScanner(bytes.NewReader(of))
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), ":", 3)
		if len(fields) != 3 {
			continue
		}
		base, file := root, "memory.max"
		if fields[1] != "" {
			if !strings.Contains(","+fields[1]+",", ",memory,") {
				continue
			}
			base, file = filepath.Join(root, "memory"), "memory.limit_in_bytes"
		}
		for dir := path.Clean("/" + fields[2]); ; dir = path.Dir(dir) {
			b, err := os.ReadFile(filepath.Join(base, dir, file))
			if n, bad := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64); err == nil && bad == nil && n < 1<<60 &&
				(!ok || n < limit) {
				limit, ok = n, true
			}
			if dir == "/" {
				break
			}
		}
	}
	return limit, ok
}
