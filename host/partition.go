package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/wfhost/wfhost/store"
)

// NumPartitions is how many partitions a store has. A run belongs to a partition by its namespace and id.
const NumPartitions = store.Partitions

// AcquirePartitions makes the host the owner of partitions, from 0 to NumPartitions-1, whichever host owned them
// before. Durable on return. From then on the other host's commits of these partitions are refused with ErrFenced,
// and it stops activations and attempts of their runs as soon as it notices. Runs continue here from what is durable.
// Partitions that the host already owns are left alone. After an error, the host may own some of the partitions.
func (h *Host) AcquirePartitions(ctx context.Context, partitions ...int) error {
	ids, err := partitionIDs(partitions)
	if err != nil {
		return err
	}
	return translate(h.rt.Partitions.Acquire(ctx, ids...))
}

// ReleasePartitions releases partitions. Changes of their runs that are not durable are dropped, and the callers that
// wait for them get ErrFenced. These runs make no progress until a host acquires the partitions. Partitions that the
// host does not own are ignored.
func (h *Host) ReleasePartitions(ctx context.Context, partitions ...int) error {
	ids, err := partitionIDs(partitions)
	if err != nil {
		return err
	}
	return translate(h.rt.Partitions.Release(ctx, ids...))
}

// Partitions returns the partitions that the host owns, as far as it knows: another host may have acquired one of
// them just now.
func (h *Host) Partitions() []int {
	list := []int{}
	for _, id := range h.rt.Partitions.Owned() {
		list = append(list, int(id))
	}
	slices.Sort(list)
	return list
}

// partitionIDs checks the numbers of partitions and removes duplicates.
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
