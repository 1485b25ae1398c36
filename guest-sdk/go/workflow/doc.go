// Package workflow is the SDK for workflows in Go. A workflow is an ordinary function:
//
//	func init() { workflow.Register("welcome", Welcome) }
//	func main() {}
//
//	func Welcome(ctx context.Context, user User) (string, error) {
//		id, err := workflow.Do(ctx, "send mail", func(s workflow.Step) (string, error) {
//			return send(user, s.IdempotencyKey)
//		})
//		if err != nil {
//			return "", err
//		}
//		return id, workflow.Sleep(ctx, "three days", 72*time.Hour)
//	}
//
// Compile it with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o welcome.wasm .
//
// Goroutines, channels, select, sync, errgroup, time.Sleep, time.After and context.WithTimeout are durable: Go's own
// scheduler runs on the run's journal. There are no special types for them: the clock, random numbers and the order of
// maps are the same on every replay.
//
// Code with an effect outside of the workflow belongs in a step. Do runs a function and records its result. Call asks a
// handler to perform the step. The function of Do works on a copy of the workflow: it can read all of its memory, but its
// changes to memory are lost. Only its result comes back. Workflow calls in it return ErrNotHere.
//
// A cancelled context withdraws sleeps, and steps that have not begun. If a step has begun, the call waits for its outcome,
// so that clean-up code knows what was done.
//
// Built for any other platform, the package runs workflow functions on an in-memory Env, for go test.
package workflow
