package fairqueue

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTurnsFollowAModel compares Turns with a slice.
func TestTurnsFollowAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			turns Turns[int]
			all   [5]Turn[int]
			model []int
		)
		for i := range all {
			all[i].Group = i
		}
		any := rapid.IntRange(0, len(all)-1)
		without := func(i int) []int {
			return slices.DeleteFunc(slices.Clone(model), func(x int) bool { return x == i })
		}
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				i := any.Draw(t, "group")
				turns.Join(&all[i])
				if !slices.Contains(model, i) {
					model = append(model, i)
				}
			},
			"leave": func(t *rapid.T) {
				i := any.Draw(t, "group")
				turns.Leave(&all[i])
				model = without(i)
			},
			"had": func(t *rapid.T) {
				i := any.Draw(t, "group")
				turns.Had(&all[i])
				if slices.Contains(model, i) {
					model = append(without(i), i)
				}
			},
			"first": func(t *rapid.T) {
				not := any.Draw(t, "not")
				may := func(i int) bool { return i != not && i != not+1 }
				at, x := slices.IndexFunc(model, may), turns.First(may)
				if (x == nil) != (at < 0) || x != nil && x != &all[model[at]] {
					t.Fatalf("%+v of %v, neither %d nor the next", x, model, not)
				}
			},
			"": func(t *rapid.T) {
				if got := slices.Collect(turns.All); !slices.Equal(got, model) || turns.Len() != len(model) {
					t.Fatal(got, turns.Len(), model)
				}
			},
		})
	})
}
