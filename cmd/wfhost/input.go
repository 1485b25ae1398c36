package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// inputFlags define the input of a run.
type inputFlags struct {
	Input     string  `help:"Input as JSON, @file, or - for standard input." xor:"input"`
	InputText *string `help:"Input as a text, which the workflow gets as a string of JSON." xor:"input" placeholder:"TEXT"`
	InputFile string  `help:"File with the input as JSON; - for standard input." xor:"input" placeholder:"FILE"`
	InputRaw  string  `help:"File with the input, for programs that read no JSON; - as above." xor:"input" placeholder:"FILE"`
}

// read returns the input, empty if there is none.
func (f *inputFlags) read(g *globals) ([]byte, error) {
	switch {
	case f.InputText != nil:
		b, err := encoded(*f.InputText)
		return []byte(strings.TrimSuffix(string(b), "\n")), err
	case f.InputFile == "-", f.InputRaw == "-":
		return io.ReadAll(g.io.in)
	case f.InputRaw != "":
		return readInputFile("--input-raw", f.InputRaw)
	case f.InputFile != "":
		return readInputFile("--input-file", f.InputFile)
	}
	return g.readInput(f.Input)
}

// readInput reads the value of --input.
func (g *globals) readInput(text string) ([]byte, error) {
	switch {
	case text == "-":
		return io.ReadAll(g.io.in)
	case strings.HasPrefix(text, "@"):
		return readInputFile("input", text[1:])
	}
	return []byte(text), nil
}

func readInputFile(what, path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, absent(fmt.Errorf("%s: %w", what, err))
	}
	return b, nil
}

// absent wraps the error of a file that does not exist, so that the command exits with exitNotFound. Other errors are unchanged.
func absent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &exitCode{exitNotFound, err}
	}
	return err
}
