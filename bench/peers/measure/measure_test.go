//go:build linux

package measure

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const line = "4242 (a (b) c) S 17 4242 4242 0 -1 4194560 100 200 0 0 11 22 33 44 20 0 8 0 1000 1 1"
	got, err := parseStat([]byte(line))
	if want := (process{pid: 4242, parent: 17, cpu: 110 * tick}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "1 (x", "1 (x) S 2", "1 (x) S two 1 1 0 -1 1 1 1 0 0 1 1 1 1 20"} {
		if p, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q became %+v", bad, p)
		}
	}
}

// TestTree counts a child: while it runs by its own figures, and its CPU time also when it has ended.
func TestTree(t *testing.T) {
	tree := Tree{Root: os.Getpid()}
	alone, err := tree.Memory()
	if err != nil || alone < 1<<20 {
		t.Fatal(alone, err)
	}
	before, err := tree.CPU()
	if err != nil {
		t.Fatal(err)
	}
	// The shell counts, so that it uses CPU time, and then waits for its input to end.
	child := exec.Command("sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo; read line")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	list, err := tree.processes()
	if err != nil || len(list) != 2 || list[0].pid != os.Getpid() || list[1].pid != child.Process.Pid {
		t.Errorf("the tree is %+v, %v, want this process and %d", list, err, child.Process.Pid)
	}
	of := Tree{Root: child.Process.Pid}
	own, err := of.CPU()
	if err != nil || own < 2*tick {
		t.Errorf("the child used %v, %v, want at least %v", own, err, 2*tick)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // read fails at the end of its input
	if after, err := tree.CPU(); err != nil || after-before < own {
		t.Errorf("the tree used %v, %v, of which the child that has ended %v", after-before, err, own)
	}
	if _, err := of.CPU(); err == nil {
		t.Error("there are figures of a process that has ended")
	}
}

func TestMachine(t *testing.T) {
	busy, err := Busy()
	if err != nil || busy < tick {
		t.Error(busy, err)
	}
	if used, err := Thread(); err != nil || used < 0 {
		t.Error(used, err)
	}
	if n, err := pss([]byte("Rss: 9 kB\nPss:                 12 kB\n")); n != 12<<10 || err != nil {
		t.Error(n, err)
	}
	if _, err := pss([]byte("Rss: 9 kB\n")); err == nil {
		t.Error("no line Pss is no error")
	}
}

func TestQuantileAndMedian(t *testing.T) {
	samples := make([]time.Duration, 100)
	for i := range samples {
		samples[i] = time.Duration(100 - i)
	}
	for p, want := range map[float64]time.Duration{0: 1, 0.5: 51, 0.99: 100, 1: 100} {
		if got := Quantile(samples, p); got != want {
			t.Errorf("quantile %v is %d, want %d", p, got, want)
		}
	}
	if got := Median([]float64{9, 1, 5}); got != 5 {
		t.Error(got)
	}
	if got := Median([]float64{9, 1, 5, 6}); got != 5.5 {
		t.Error(got)
	}
}
