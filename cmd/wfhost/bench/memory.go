package bench

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// memory returns the resident memory of the process and its peak since resetPeak. Both are NaN on a system without
// /proc.
func memory() (rss, peak float64) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return math.NaN(), math.NaN()
	}
	field := func(name string) float64 {
		_, rest, _ := strings.Cut(string(b), "\n"+name+":")
		line, _, _ := strings.Cut(rest, "\n")
		kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(line, "kB")), 64)
		if err != nil {
			return math.NaN()
		}
		return kib * 1024
	}
	return field("VmRSS"), field("VmHWM")
}

// settle frees unused memory, so that the next figure counts only what is held.
func settle() {
	runtime.GC()
	debug.FreeOSMemory()
}

// resetPeak resets the peak memory of the process. Where that is not allowed, the peak counts from the start of the
// process.
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600) }

// diskBytes returns the total size of the files below a folder.
func diskBytes(dir string) (float64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if os.IsNotExist(err) { // Pebble removed it meanwhile
			return nil
		}
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return float64(sum), err
}
