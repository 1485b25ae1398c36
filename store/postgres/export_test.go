package postgres

// Tables returns the tables by what a copy does with them.
func Tables() (copied, derived, own []string) { return copiedTables, derivedTables, ownTables }
