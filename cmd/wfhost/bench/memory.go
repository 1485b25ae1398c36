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

// memory gives what the process holds of the machine's memory, and the most that it has held since resetPeak. Where
// the system has no /proc, both are NaN.
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

// settle gives back what nobody uses, so that what is measured next is held.
func settle() {
	runtime.GC()
	debug.FreeOSMemory()
}

// resetPeak makes the greatest memory of the process begin anew. Where that is not allowed, it stays that since the
// process began.
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600) }

// diskBytes gives the size of all files below a folder.
func diskBytes(dir string) (float64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if os.IsNotExist(err) { // Pebble has removed it meanwhile
			return nil
		}
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return float64(sum), err
}
