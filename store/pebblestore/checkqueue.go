package pebblestore

import (
	"bytes"

	"github.com/wfhost/wfhost/store"
)

// limitRecords checks that limits belong to workflows of namespaces.
func (c *checker) limitRecords() error {
	prefix := len(store.GlobalKey(0, store.TableLimits, nil))
	return c.each(0, store.NoPartition, store.TableLimits, func(rest, v []byte) error {
		l, err := store.DecodeLimits(v)
		switch {
		case err != nil:
			c.whole("limits", "the limits of key %x: %v", rest, err)
		case !bytes.Equal(store.LimitsKey(l.Namespace, l.Workflow)[prefix:], rest):
			c.whole("limits", "the limits of key %x are those of workflow %q of namespace %d", rest, l.Workflow, l.Namespace)
		case !c.existing[l.Namespace]:
			c.whole("limits", "there are limits of a workflow of namespace %d, which nobody has created", l.Namespace)
		}
		return nil
	})
}

// queues checks the queues of a namespace: that they are in the right partition, and their cells with CheckOptions.Queue.
func (x *partitionCheck) queues(ns store.NamespaceID) error {
	var of string
	var cells []store.Cell
	end := func() {
		if len(cells) > 0 && x.queue != nil {
			for _, text := range x.queue(of, cells) {
				x.problem("queue", ns, "", "the queue of workflow %q: %s", of, text)
			}
		}
		cells = nil
	}
	err := x.each(ns, x.p, store.TableQueue, func(rest, v []byte) error {
		workflow, cell, err := store.ParseQueueKey(rest)
		if err != nil {
			x.problem("key", ns, "", "%v", err)
			return nil
		}
		if workflow != of {
			end()
			of = workflow
			if p := (store.RunKey{Namespace: ns, ID: workflow}).Partition(); p != x.p {
				x.problem("key", ns, "", "the queue of workflow %q belongs to partition %d", workflow, p)
			}
		}
		cells = append(cells, store.Cell{Key: bytes.Clone(cell), Value: bytes.Clone(v)})
		return nil
	})
	end()
	return err
}
