package doctor

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCgroupLimit reads the limits of cgroups v1 and v2: the lowest limit among a cgroup and its parents counts.
func TestCgroupLimit(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{"memory.max": "max\n", "system.slice/memory.max": "4294967296\n",
		"system.slice/wfhost.service/memory.max": "max\n", "memory/docker/x/memory.limit_in_bytes": "1073741824\n",
		"memory/memory.limit_in_bytes": "9223372036854771712\n"} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for of, want := range map[string]uint64{"0::/system.slice/wfhost.service\n": 4 << 30, "0::/\n": 0, "0::/elsewhere\n": 0,
		"5:cpu,memory:/docker/x\n1:cpu:/\n": 1 << 30, "5:cpuset:/docker/x\n": 0, "rubbish": 0, "0::/../../system.slice\n": 4 << 30} {
		if n, ok := cgroupLimit(root, []byte(of)); n != want || ok != (want != 0) {
			t.Errorf("%q: %d %v, want %d", of, n, ok, want)
		}
	}
	if n, ok := memTotal([]byte("MemFree: 1 kB\nMemTotal:       16384 kB\n")); !ok || n != 16<<20 {
		t.Errorf("%d %v", n, ok)
	}
	for _, pid := range []int{0, os.Getpid()} {
		if n, ok := fileLimit(pid); !ok || n == 0 {
			t.Errorf("open files of process %d: %d %v", pid, n, ok)
		}
	}
}
