package workflow

// A guest has no files, so time.LoadLocation finds its zones in the module. They belong to the module and not to the host: a
// workflow that continues after a year then computes with the rules with which it began.
import _ "time/tzdata"
