package guest

import (
	"slices"
	"testing"

	"github.com/wfhost/wfhost/host/internal/admission"
)

func TestWaitsAtWhichAnInstanceIsMeasured(t *testing.T) {
	at := func(unmeasured int64) (list []int) {
		for n := 1; n <= 1024; n++ {
			if measures(n, unmeasured) {
				list = append(list, n)
			}
		}
		return list
	}
	if got, want := at(admission.LargeBytes-1), []int{16, 32, 64, 128, 256, 512, 768, 1024}; !slices.Equal(got, want) {
		t.Errorf("a small instance is measured at the waits %v, want %v", got, want)
	}
	if got := at(admission.LargeBytes); len(got) != 1024/waitsPerLook {
		t.Errorf("an instance that may have become large is measured at the waits %v", got)
	}
}
