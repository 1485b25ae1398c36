package module

import "fmt"

// InUseError reports that a version cannot be deleted because runs need it.
type InUseError struct {
	Workflow string
	Version  uint32
	Runs     int64  // includes ended runs that are not deleted
	Example  string // id of one run; empty if none was found among the oldest runs of the workflow
}

// Error names the version and one of the runs.
func (e *InUseError) Error() string {
	example := ""
	if e.Example != "" {
		example = fmt.Sprintf(", one of which is %q", e.Example)
	}
	return fmt.Sprintf("%s@%d is in use by %d runs%s; delete them first", e.Workflow, e.Version, e.Runs, example)
}
