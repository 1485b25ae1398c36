// Command guest is a Go program that computes: maps, sorting, text, goroutines and enough garbage to collect.
package main

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
)

type node struct {
	Name  string
	Value float64
	Next  []*node
}

func tree(depth, n int) *node {
	t := &node{Name: strings.Repeat("x", depth), Value: float64(n) / 7}
	for i := range depth {
		t.Next = append(t.Next, tree(depth-1, n*3+i))
	}
	return t
}

// total stays between calls.
var total uint64

//go:wasmexport run
func run(n int32) uint64 {
	h := fnv.New64a()
	counts := map[string]int{}
	for i := range n {
		b, err := json.Marshal(tree(3, int(i)))
		if err != nil {
			panic(err)
		}
		counts[fmt.Sprint(len(b)%17)]++
		h.Write(b)
	}
	keys := make([]string, 0, len(counts))
	for k, c := range counts {
		keys = append(keys, fmt.Sprint(k, "=", c))
	}
	slices.Sort(keys)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() { keys[i] = strings.ToUpper(keys[i]) })
	}
	wg.Wait()
	fmt.Fprint(h, keys)
	total += h.Sum64()
	return total
}

//go:wasmexport spin
func spin(n int32) (sum int32) {
	for i := range n {
		sum += i ^ sum
	}
	return sum
}

func main() {}
