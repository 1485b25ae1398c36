package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// NumPartitions is how many partitions a store has. Each run belongs to one of them, by its namespace and id.
const NumPartitions = store.Partitions

// AcquirePartitions makes the host the owner of partitions, from 0 to NumPartitions-1, whichever host owned them before.
// Durable on return. From then on the other host's commits of these partitions are refused with ErrFenced, and its
// activations and attempts of their runs are stopped as soon as it learns of it. Runs continue here from what is durable. A
// partition that the host owns already stays as it is. If it returns an error, the host may own some of them.
func (h *Host) AcquirePartitions(ctx context.Context, partitions ...int) error {
	ids, err := partitionIDs(partitions)
	if err != nil {
		return err
	}
	return translate(h.rt.Partitions.Acquire(ctx, ids...))
}

// ReleasePartitions releases partitions. What is not durable of their runs is dropped, and the callers that wait for it get
// ErrFenced. Nothing happens to these runs until a host acquires the partitions. One that the host does not own is left out.
func (h *Host) ReleasePartitions(ctx context.Context, partitions ...int) error {
	ids, err := partitionIDs(partitions)
	if err != nil {
		return err
	}
	return translate(h.rt.Partitions.Release(ctx, ids...))
}

// Partitions returns the partitions that the host owns, as far as it knows: another host may have acquired one of them a
// moment ago.
func (h *Host) Partitions() []int {
	list := []int{}
	for _, id := range h.rt.Partitions.Owned() {
		list = append(list, int(id))
	}
	slices.Sort(list)
	return list
}

// partitionIDs checks numbers of partitions. Those that occur twice are meant once.
func partitionIDs(partitions []int) ([]store.PartitionID, error) {
	ids := make([]store.PartitionID, 0, len(partitions))
	for _, p := range partitions {
		if p < 0 || p >= NumPartitions {
			return nil, &joined{fmt.Errorf("partition %d: there are those from 0 to %d", p, NumPartitions-1), ErrInvalid}
		}
		if id := store.PartitionID(p); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
