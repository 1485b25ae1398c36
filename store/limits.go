package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
)

// Bounds of the stored limits of workflows.
const (
	// MaxLimits bounds the workflows of a store that have limits. MaxLimitsOfOne bounds them for one namespace, so that
	// it cannot use up the store's bound.
	MaxLimits      = 10_000
	MaxLimitsOfOne = 1_000
	// MaxLimitBytes bounds the rules of one workflow: the host reads them for each start.
	MaxLimitBytes = 16 << 10
	// MaxCells bounds the cells of one QueueSet, so that a batch stays below a few MiB.
	MaxCells = 16_384
	// MaxCellKey bounds the key of a cell, which may hold a run id and a few numbers.
	MaxCellKey = 256
)

// Limits is the record of the limits of a workflow.
type Limits struct {
	Namespace NamespaceID
	Workflow  string
	Data      []byte // the rules, opaque to the store; empty = none
}

// Queue returns the key of the queue of the runs that the limits hold back. The key gives its partition, as for a run.
func (l *Limits) Queue() RunKey { return RunKey{l.Namespace, l.Workflow} }

// Cell is one key and value of a queue, opaque to the store.
type Cell struct {
	Key   []byte // 1 to MaxCellKey bytes
	Value []byte // nil in a QueueSet removes the cell; an empty one is kept
}

// QueueSet changes the queue of a workflow within a Group, and sends the commands that follow from the change.
type QueueSet struct {
	Queue RunKey // the namespace, and the workflow as the id
	// Before is a cell as it was when the change was made, with a nil Value if it did not exist. ErrConflict if the
	// stored cell differs. Each change must write this cell, which detects concurrent changes of a queue.
	Before Cell
	Cells  []Cell // with different keys
	// Expired lists cells that are removed if they still have these values: another change may have set a new value
	// since the cell was read. None of their keys is in Cells.
	Expired []Cell
	Ack     []CommandSeq
	Outbox  []Command
	// Setting says that SetCells changes a setting, which a View counts.
	Setting bool
}

// Check returns an error if the change does not fit the stored value of cell Before. now is that value, nil if the cell
// does not exist.
func (x *QueueSet) Check(now []byte) error {
	if (now == nil) != (x.Before.Value == nil) || !bytes.Equal(now, x.Before.Value) {
		return fmt.Errorf("queue of workflow %q: %w", x.Queue.ID, ErrConflict)
	}
	return nil
}

// CellQuery selects cells of a queue in the order of their keys.
type CellQuery struct {
	Queue RunKey
	From  []byte // the first key
	To    []byte // after the last key; nil = to the end of the queue
	Limit int
}

// LimitStore is the part of a store for limits and queues.
type LimitStore interface {
	// SetLimits sets the limits of a workflow, durable on return, or removes them if there is no Data. The same commit
	// puts tell into the inbox of its receiver. The caller need not own a partition. ErrTooLarge if the store has
	// MaxLimits, or the namespace MaxLimitsOfOne.
	SetLimits(ctx context.Context, l Limits, tell Command) error
	// LimitsOf reads the limits of a workflow. Data is empty if the workflow has none.
	LimitsOf(ctx context.Context, ns NamespaceID, workflow string) (Limits, error)
	// Limits returns the limits of a namespace, by workflow.
	Limits(ctx context.Context, ns NamespaceID) ([]Limits, error)
	// Cells reads durable cells of a queue. The caller need not own its partition.
	Cells(ctx context.Context, q CellQuery) ([]Cell, error)
	// SetCells changes the cells of a queue that no partition owner uses, durable on return. Its name must not be a
	// legal workflow name, and x must have no Ack and no Outbox. Any host may call SetCells at any time: ErrConflict if
	// another host has changed x.Before. It refuses what Commit would refuse.
	SetCells(ctx context.Context, x QueueSet) error
}

// CheckCells returns an error if SetCells cannot make the change.
func (x *QueueSet) CheckCells() error {
	if len(x.Ack)+len(x.Outbox) > 0 {
		return fmt.Errorf("the queue %q has no owner, and takes and sends no commands", x.Queue.ID)
	}
	return checkQueues(0, x.Queue.Partition(), []QueueSet{*x})
}

// CheckLimits returns ErrTooLarge if limits are too large, or cannot be added to the store. all is the number of
// workflows with limits in the store, own the number in the namespace.
func CheckLimits(all, own int, l *Limits) error {
	switch {
	case len(l.Data) > MaxLimitBytes:
		return fmt.Errorf("%w: the limits of workflow %q have %d bytes, at most %d are allowed", ErrTooLarge, l.Workflow, len(l.Data),
			MaxLimitBytes)
	case own >= MaxLimitsOfOne:
		return fmt.Errorf("%w: %d workflows of the namespace have limits, the limit", ErrTooLarge, own)
	case all >= MaxLimits:
		return fmt.Errorf("%w: %d workflows of the store have limits, the limit", ErrTooLarge, all)
	}
	return nil
}

// checkQueues checks the queues of one group.
func checkQueues(group int, p PartitionID, list []QueueSet) error {
	for i := range list {
		x := &list[i]
		if of := x.Queue.Partition(); of != p {
			return &RefusedError{group, -1, fmt.Errorf("the queue of workflow %q is of partition %d, not of %d", x.Queue.ID, of, p)}
		}
		for j := range list[:i] {
			if list[j].Queue == x.Queue {
				return &RefusedError{group, -1, fmt.Errorf("the queue of workflow %q occurs twice in one commit", x.Queue.ID)}
			}
		}
		if n := len(x.Cells) + len(x.Expired); n > MaxCells {
			return &RefusedError{group, -1, fmt.Errorf("%d cells of the queue of workflow %q, the limit is %d", n, x.Queue.ID, MaxCells)}
		}
		if err := x.checkCell(&x.Before); err != nil {
			return &RefusedError{group, -1, err}
		}
		for _, list := range [][]Cell{x.Cells, x.Expired} {
			for j := range list {
				if err := x.checkCell(&list[j]); err != nil {
					return &RefusedError{group, -1, err}
				}
			}
		}
	}
	return nil
}

func (x *QueueSet) checkCell(c *Cell) error {
	if n := len(c.Key); n == 0 || n > MaxCellKey {
		return fmt.Errorf("a cell of the queue of workflow %q has a key of %d bytes, want 1 to %d", x.Queue.ID, n, MaxCellKey)
	}
	return nil
}

// AppendLimits encodes limits.
func AppendLimits(dst []byte, x *Limits) []byte {
	e, from := newRecord(dst)
	e.uint(1, uint64(x.Namespace))
	e.string(2, x.Workflow)
	e.bytes(3, x.Data)
	return e.seal(from)
}

// DecodeLimits decodes what AppendLimits made.
func DecodeLimits(b []byte) (x Limits, err error) {
	err = decode("limits", b, func(f field) bool {
		switch f.tag {
		case 1:
			x.Namespace = NamespaceID(small(f.num))
		case 2:
			x.Workflow = string(f.b)
		case 3:
			x.Data = clone(f.b)
		default:
			return false
		}
		return true
	})
	return x, err
}

// LimitsKey returns the key of the limits of a workflow. The keys of all namespaces are under namespace 0.
func LimitsKey(ns NamespaceID, workflow string) []byte {
	return append(binary.BigEndian.AppendUint32(GlobalKey(0, TableLimits, nil), uint32(ns)), workflow...)
}

// QueueKey returns the key of a cell of a queue. Without a cell, it returns the prefix of all cells of the queue.
func QueueKey(queue RunKey, cell []byte) []byte {
	k := append(AppendPrefix(nil, queue.Namespace, queue.Partition(), TableQueue), queue.ID...)
	return append(append(k, 0), cell...)
}

// ParseQueueKey reads the workflow and the cell from a key of table TableQueue after the prefix of AppendPrefix.
func ParseQueueKey(rest []byte) (workflow string, cell []byte, err error) {
	i := bytes.IndexByte(rest, 0)
	if i <= 0 || i == len(rest)-1 {
		return "", nil, fmt.Errorf("%w: key %q of a queue", ErrCorrupt, rest)
	}
	return string(rest[:i]), rest[i+1:], nil
}
