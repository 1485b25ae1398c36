// Package sim simulates whole hosts. From a seed it draws workflows in some versions, users who migrate, update and move runs,
// faults of the store, crashes and jumps of the clock, and drives the production code of run, shard, replay, journal and
// memstore by one goroutine, in virtual time. Whatever a shard asks of its port becomes a pending operation, and the seed
// decides which of them completes next. After each event an oracle compares what the hosts do with what the store has.
//
// A third of the worlds are clusters of three to five hosts, which share partitions by package cluster. Beats, their answers,
// and notices between hosts are late, lost and doubled, hosts are stopped for a while, and their clocks differ. Only the newest
// owner of a partition commits, a live host keeps its partitions, and no partition is without an owner for long.
//
// The simulator is in the test files of this package. A failing seed is repeated by
//
//	go test ./host/internal/sim -run TestSeeds -sim.seed=…
package sim
