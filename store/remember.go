package store

// Remembering is implemented by stores that remember which ids have no run. The host looks up the id of a run before it
// starts the run.
type Remembering interface {
	// Absent reports whether the store knows, without reading, that the run does not exist, and that no record of a
	// deleted run is left. It does not block. False means unknown.
	Absent(run RunKey) bool
}
