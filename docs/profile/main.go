// Command profile draws a CPU profile as a flame graph, an SVG without scripts:
//
//	go tool pprof -traces -unit ms cpu.prof > traces.txt
//	go run ./docs/profile -title "A wake" traces.txt > wake.svg
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	title := flag.String("title", "CPU time", "what is written above the picture")
	flag.Parse()
	if err := draw(*title, flag.Args()); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "profile:", err)
		os.Exit(1)
	}
}

func draw(title string, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one file, what go tool pprof -traces prints, got %d", len(args))
	}
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	all, err := fold(f)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	_, err = os.Stdout.WriteString(picture(title, all))
	return err
}
