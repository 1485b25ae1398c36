// Command go computes until its fuel is gone: the input says what.
package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func init() { workflow.Register("fuel", compute) }

func main() {}

var sink uint32

func compute(_ context.Context, what int) (int, error) {
	x, numbers, counts := uint32(1), make([]uint32, 10_000), map[uint32]uint32{}
	next := func() uint32 {
		x = x*1664525 + 1013904223
		return x
	}
	for {
		switch what {
		case 0:
			for range 1_000_000 {
				next()
			}
		case 1:
			for i := range numbers {
				numbers[i] = next()
			}
			slices.Sort(numbers)
		case 2:
			for range 100_000 {
				counts[(next()>>12)%8000]++
			}
		default:
			var b strings.Builder
			for range 10_000 {
				b.WriteString(strconv.Itoa(int(next()>>8)) + " ")
			}
			sink += uint32(strings.Count(b.String(), " "))
		}
		sink += x
	}
}
