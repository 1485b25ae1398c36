package page

import (
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host"
)

// TestShortPages follows "Next page" through large runs and schedules: such pages have fewer items, but still a next
// page.
func TestShortPages(t *testing.T) {
	const n = 30
	s := openSite(t)
	attributes := map[string]string{}
	for i := range abi.MaxAttributes {
		attributes[fmt.Sprint("key", i)] = strings.Repeat("x", abi.MaxAttributeBytes)
	}
	for i := range n {
		_, err := s.h.Start(ctx, "forever", nil, host.WithRunID(fmt.Sprint("r", 100+i)), host.WithAttributes(attributes))
		if err == nil {
			_, err = s.h.Schedules().Create(ctx, fmt.Sprint("s", 100+i), host.ScheduleSpec{Workflow: "forever", When: "0 3 * * *",
				Input: []byte(`"` + strings.Repeat("x", 60<<10) + `"`)})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.h.Settle()
	link := regexp.MustCompile(`rel="next" href="([^"]+)"`)
	for path, row := range map[string]*regexp.Regexp{"/runs": regexp.MustCompile(`/runs/(r1\d\d)"`),
		"/schedules": regexp.MustCompile(`/schedules/(s1\d\d)"`)} {
		var ids []string
		pages := 0
		for next := path; next != ""; pages++ {
			page := s.get(next)
			for _, m := range row.FindAllStringSubmatch(page, -1) {
				ids = append(ids, m[1])
			}
			next = ""
			if m := link.FindStringSubmatch(page); m != nil {
				next = html.UnescapeString(m[1])
			}
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
		if len(ids) != n || pages < 2 {
			t.Errorf("%s: %d of %d in %d pages", path, len(ids), n, pages)
		}
	}
}
