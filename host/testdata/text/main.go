// Command text holds a workflow that takes and gives bytes as they are.
package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"

	"github.com/wfhost/wfhost/guest-sdk/go/workflow"
)

func main() {}

func init() {
	workflow.Register("shout", Shout)
	workflow.RegisterStep("arguments", func(workflow.Step, int) ([]string, error) { return os.Args, nil })
}

// Shout returns its input in upper case, behind the arguments of the program and of its step function.
func Shout(ctx context.Context, in workflow.Bytes) (workflow.Bytes, error) {
	flag.Parse()
	inStep, err := workflow.Call[[]string](ctx, "arguments", "arguments", 0)
	if err != nil {
		return nil, err
	}
	read, err := io.ReadAll(os.Stdin) // the input, too
	if err != nil {
		return nil, err
	}
	same, err := workflow.Do(ctx, "compare", func(workflow.Step) (workflow.Bytes, error) {
		if !bytes.Equal(in, read) {
			return workflow.Bytes("differs"), nil
		}
		return bytes.ToUpper(in), nil
	})
	if err != nil {
		return nil, err
	}
	head := os.Args[0] + " " + inStep[0] + "\n"
	return append(workflow.Bytes(head), same...), nil
}
