package store

// Remembering is implemented by stores that remember ids that no run has. Before a run is started, its id was looked up.
type Remembering interface {
	// Absent reports whether it is known, without reading, that there is no such run, nor what is left of a deleted one. It does not
	// block. False says nothing.
	Absent(run RunKey) bool
}
