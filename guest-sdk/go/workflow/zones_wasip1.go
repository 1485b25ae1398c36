package workflow

// A guest has no files, so time.LoadLocation reads the time zones from the module. They are part of the module and not of
// the host, so a workflow that continues after a year still uses the same rules.
import _ "time/tzdata"
