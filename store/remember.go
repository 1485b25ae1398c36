package store

// Remembering is implemented by stores that remember ids which no run has: who starts a run has asked for it before.
type Remembering interface {
	// Absent reports whether it is known, without reading, that there is no such run, nor what is left of a deleted one. It does not
	// block. False says nothing.
	Absent(run RunKey) bool
}
