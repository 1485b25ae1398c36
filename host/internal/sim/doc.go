// Package sim simulates whole hosts. From a seed it draws workflows in some versions, users who migrate, update and move runs,
// faults of the store, crashes and jumps of the clock, and drives the production code of run, shard, replay, journal and
// memstore by one goroutine, in virtual time. Whatever a shard asks of its port becomes a pending operation, and the seed
// decides which of them completes next. After each event an oracle compares what the hosts do with what the store has.
//
// The simulator is in the test files of this package. A failing seed is repeated by
//
//	go test ./host/internal/sim -run TestSeeds -sim.seed=…
package sim
