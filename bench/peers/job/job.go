// Package job describes the one workflow that every engine runs: some steps, a sleep, some more steps.
package job

// Workflow is the input of the workflow. It has no sleep if SleepMs is 0.
type Workflow struct {
	ID      string `json:"id"`
	Slot    int    `json:"slot"`   // tells the workflows of one measurement apart
	Before  int    `json:"before"` // number of steps ahead of the sleep
	SleepMs int64  `json:"sleepMs"`
	After   int    `json:"after"` // number of steps after it
}

// Step is one step of a workflow. Its body notes the time and does nothing else.
type Step struct {
	Slot   int `json:"s"` // of the workflow
	Number int `json:"n"` // counted from 0, across the sleep
}
