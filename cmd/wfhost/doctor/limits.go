package doctor

import (
	"fmt"
	"math"
)

// Needs of a server beside its budgets.
const (
	// reservedFiles is the number of descriptors that a server reserves for its store: see --max-connections.
	reservedFiles = 256
	// fewestFiles is enough for the store and a few connections.
	fewestFiles = 2 * reservedFiles
	// otherBytes is the memory outside all budgets: the program, the tables and the cache of the store, runs that wake
	// soon, and garbage between two collections.
	otherBytes = 256 << 20
	// leastShare is the recommended memory limit in percent of the sum of the budgets.
	leastShare = 125
)

// whose describes the process whose limits were read.
func whose(pid int) string {
	if pid == 0 {
		return "of this shell, which those of a service may differ from"
	}
	return fmt.Sprintf("of the server (process %d)", pid)
}

// openFiles compares the limit of descriptors with the server's needs.
func openFiles(pid int, b Budgets) Check {
	limit, ok := fileLimit(pid)
	if !ok {
		return Check{Name: "open files", Status: Skip, Found: "the system does not say what the limit is"}
	}
	return judgeFiles(limit, pid, b)
}

func judgeFiles(limit uint64, pid int, b Budgets) Check {
	want := uint64(max(b.MaxConnections, 0)) + reservedFiles
	c := Check{Name: "open files", Status: OK, Found: fmt.Sprintf("%s %s; %d are wanted", many(limit), whose(pid), want),
		Values: map[string]any{"wanted": want, "limit": limit, "pid": pid}}
	if limit == math.MaxUint64 {
		delete(c.Values, "limit")
	}
	const raise = "raise it: LimitNOFILE= of a unit, ulimits of a container, ulimit -n of a shell"
	switch {
	case limit < fewestFiles:
		c.Status, c.Advice = Fail, raise+"; the store fails when it cannot open its files"
	case limit < want:
		c.Status = Warn
		c.Advice = fmt.Sprintf("%s; with this, %d connections are accepted at a time, and --max-connections is %d", raise,
			limit-reservedFiles, b.MaxConnections)
	}
	return c
}

func many(limit uint64) string {
	if limit == math.MaxUint64 {
		return "unlimited"
	}
	return fmt.Sprint(limit)
}

// sum returns the most memory that a server may hold.
func (b Budgets) sum() uint64 {
	total := uint64(otherBytes)
	for _, n := range []int64{b.GuestBytes, b.ParkBytes, b.PoolBytes, b.WarmBytes, b.JournalBytes, b.ModuleBytes} {
		total += uint64(max(n, 0))
	}
	return total
}

// memory compares the most memory that a server may hold with its limit.
func memory(pid int, b Budgets) Check {
	limit, from := memoryLimit(pid)
	if from == "" {
		return Check{Name: "memory", Status: Skip, Values: map[string]any{"budgets": b.sum()},
			Found: fmt.Sprintf("a server may hold %s; the system does not say what there is", size(b.sum()))}
	}
	return judgeMemory(limit, from, b)
}

func judgeMemory(limit uint64, from string, b Budgets) Check {
	want := b.sum()
	c := Check{Name: "memory", Status: OK,
		Found: fmt.Sprintf("%s %s; a server may hold %s: guests %s, parked %s, pool %s, warm %s, journals %s, modules %s, others %s",
			size(limit), from, size(want), size(uint64(max(b.GuestBytes, 0))), size(uint64(max(b.ParkBytes, 0))),
			size(uint64(max(b.PoolBytes, 0))), size(uint64(max(b.WarmBytes, 0))), size(uint64(max(b.JournalBytes, 0))),
			size(uint64(max(b.ModuleBytes, 0))), size(otherBytes)),
		Values: map[string]any{"limit": limit, "limit_from": from, "budgets": want}}
	const lower = "give it more, or less to its budgets: --guest-bytes, --park-bytes, --journal-bytes, --module-bytes " +
		"(docs/operate/memory.md)"
	switch {
	case limit < want:
		c.Status, c.Advice = Fail, lower+"; the kernel kills it when it holds all of them"
	case limit/leastShare*100 < want:
		c.Status, c.Advice = Warn, lower+"; compiling a module takes 110 MiB beside it, and up to --compile-memory"
	}
	return c
}

// leastAddresses has room for the views that instances have of their images, and the reservations of Go and of the
// store.
const leastAddresses = 16 << 30

// addressSpace checks the limit of virtual memory. A server needs much more of it than of memory.
func addressSpace(pid int) Check {
	limit, ok := addressLimit(pid)
	if !ok {
		return Check{Name: "address space", Status: Skip, Found: "the system does not say what the limit is"}
	}
	return judgeAddresses(limit, strictOvercommit(), pid)
}

func judgeAddresses(limit uint64, strict bool, pid int) Check {
	c := Check{Name: "address space", Status: OK, Found: "unlimited " + whose(pid)}
	if limit != math.MaxUint64 {
		c.Found, c.Values = size(limit)+" "+whose(pid), map[string]any{"limit": limit}
	}
	switch {
	case limit < leastAddresses:
		c.Status = Fail
		c.Advice = "lift it (LimitAS= of a unit, ulimit -v): instances are views of images, and need addresses, not memory"
	case strict:
		c.Status = Warn
		c.Found += "; vm.overcommit_memory is 2"
		c.Advice = "set vm.overcommit_memory to 0: with 2, the kernel refuses reservations that are never used"
	case limit != math.MaxUint64:
		c.Status, c.Advice = Warn, "lift it (LimitAS= of a unit, ulimit -v): bound memory by a cgroup (MemoryMax=) instead"
	}
	return c
}
