// Command arguments is an ordinary Go program that reads its flags and a text.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
)

func main() {
	loud := flag.Bool("loud", false, "say it loudly")
	flag.Parse()
	lines := 0
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		lines++
	}
	fmt.Printf("%q of %d, %d flags, loud %t, %d lines", os.Args[0], len(os.Args), flag.NFlag(), *loud, lines)
}
