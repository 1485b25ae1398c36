package page

import (
	"strings"
)

const (
	// maxDiffLines bounds the lines of each payload in a comparison, since the table has the product of both numbers
	// of cells.
	maxDiffLines = 1000
	// maxDiffShown is the maximum number of lines of a comparison.
	maxDiffShown = 300
	// diffContext is how many equal lines are shown before and after a difference.
	diffContext = 3
)

// payloadDiff compares two payloads side by side.
type payloadDiff struct {
	Label string
	Equal bool
	Lines []diffLine
	Cut   bool // there is more
}

// diffLine is a line of both payloads, or of one. Class is same, changed, first or second; skip stands for equal
// lines.
type diffLine struct {
	A, B  string
	Class string
	N     int // how many lines are skipped
}

// diffOf compares two payloads as the page shows them.
func diffOf(label string, a, b []byte, equal bool) *payloadDiff {
	d := &payloadDiff{Label: label, Equal: equal}
	x, y := show("", "", a), show("", "", b)
	la, lb := linesOf(x), linesOf(y)
	d.Cut = x != nil && x.Cut || y != nil && y.Cut
	if len(la) > maxDiffLines || len(lb) > maxDiffLines {
		la, lb, d.Cut = la[:min(len(la), maxDiffLines)], lb[:min(len(lb), maxDiffLines)], true
	}
	d.Lines = skipEqual(merge(la, lb))
	if len(d.Lines) > maxDiffShown {
		d.Lines, d.Cut = d.Lines[:maxDiffShown], true
	}
	return d
}

func linesOf(p *payload) []string {
	if p == nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(p.Text, "\n"), "\n")
}

// merge aligns lines by their longest common subsequence. A replaced line is paired with its replacement.
func merge(a, b []string) (list []diffLine) {
	// common[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	width := len(b) + 1
	common := make([]int32, (len(a)+1)*width)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i*width+j] = common[(i+1)*width+j+1] + 1
			} else {
				common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
			}
		}
	}
	var gone, come []string // since the last common line
	flush := func() {
		for k := range max(len(gone), len(come)) {
			l := diffLine{Class: "changed"}
			switch {
			case k >= len(come):
				l.A, l.Class = gone[k], "first"
			case k >= len(gone):
				l.B, l.Class = come[k], "second"
			default:
				l.A, l.B = gone[k], come[k]
			}
			list = append(list, l)
		}
		gone, come = nil, nil
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			flush()
			list = append(list, diffLine{A: a[i], B: b[j], Class: "same"})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[(i+1)*width+j] >= common[i*width+j+1]:
			gone = append(gone, a[i])
			i++
		default:
			come = append(come, b[j])
			j++
		}
	}
	flush()
	return list
}

// skipEqual omits equal lines that are not near a difference.
func skipEqual(list []diffLine) (shown []diffLine) {
	near := make([]bool, len(list))
	for i := range list {
		if list[i].Class != "same" {
			for k := max(0, i-diffContext); k <= min(len(list)-1, i+diffContext); k++ {
				near[k] = true
			}
		}
	}
	for i := range list {
		switch n := len(shown); {
		case near[i]:
			shown = append(shown, list[i])
		case n > 0 && shown[n-1].Class == "skip":
			shown[n-1].N++
		default:
			shown = append(shown, diffLine{Class: "skip", N: 1})
		}
	}
	return shown
}
