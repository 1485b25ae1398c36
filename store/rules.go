package store

import (
	"cmp"
	"fmt"
)

// Compare returns -1, 0 or 1 if k is before, at or after o in the wake index. The order is by time. At one time, the wakes
// of runs of the default namespace come last, by id; all other wakes come before, by kind, namespace and id. A key that has
// only a time is before all other keys of that time.
func (k WakeKey) Compare(o WakeKey) int {
	return cmp.Or(cmp.Compare(k.UnixMs, o.UnixMs), cmp.Compare(k.class(), o.class()), cmp.Compare(k.Kind, o.Kind),
		cmp.Compare(k.Key.Namespace, o.Key.Namespace), cmp.Compare(k.Key.ID, o.Key.ID))
}

// tagged reports whether the key is written with its kind and namespace. Keys of runs of the default namespace are
// written without them, as before there were other wakes.
func (k WakeKey) tagged() bool { return k.Kind != WakeRun || k.Key.Namespace != 0 }

func (k WakeKey) class() int {
	switch {
	case k.tagged():
		return 1
	case k.Key.ID == "":
		return 0
	}
	return 2
}

// CheckSealKey returns an error if a key cannot be stored.
func CheckSealKey(k *SealKey) error {
	if len(k.ID) == 0 || len(k.ID) > MaxSealKeyID {
		return fmt.Errorf("id of a key has %d bytes, it must have from 1 to %d", len(k.ID), MaxSealKeyID)
	}
	return CheckRecord("key", AppendKey(nil, k))
}

// SealedKey splits a sealed record: the length of the key's id u8, the id, and the bytes that were encoded with the
// key.
func SealedKey(sealed []byte) (id string, encoded []byte, err error) {
	if len(sealed) == 0 || sealed[0] == 0 || sealed[0] > MaxSealKeyID || len(sealed) <= int(sealed[0]) {
		return "", nil, fmt.Errorf("%w: a sealed record of %d bytes has no id of a key", ErrCorrupt, len(sealed))
	}
	n := 1 + int(sealed[0])
	return string(sealed[1:n]), sealed[n:], nil
}

// VersionNotFound returns an ErrNotFound for a version of a workflow, or for any version of it if number is 0.
func VersionNotFound(workflow string, number uint32) error {
	if number == 0 {
		return fmt.Errorf("workflow %q: %w", workflow, ErrNotFound)
	}
	return fmt.Errorf("version %d of workflow %q: %w", number, workflow, ErrNotFound)
}

// NewestNotFound returns an ErrNotFound: no version of the workflow has the module.
func NewestNotFound(workflow string, module Digest) error {
	return fmt.Errorf("version of workflow %q with module %s: %w", workflow, module, ErrNotFound)
}

// Check returns ErrConflict if the number of the workflow's latest version, 0 for none, is not what After says.
func (s VersionSpec) Check(latest uint32) error {
	if s.After != nil && *s.After != latest {
		return fmt.Errorf("workflow %q: the latest version is %d, it was %d: %w", s.Workflow, latest, *s.After, ErrConflict)
	}
	return nil
}

// Next returns the version that the spec adds after the latest one (zero if there is none), and whether it is new: the
// same module with the same grants again is the same version.
func (s VersionSpec) Next(latest Version) (Version, bool) {
	if latest.Number != 0 && !latest.Deleted && latest.Module == s.Module && latest.Grants.Equal(s.Grants) &&
		latest.Imported == s.Imported {
		return latest, false
	}
	return Version{Namespace: s.Namespace, Workflow: s.Workflow, Number: latest.Number + 1, Module: s.Module,
		Grants: s.Grants, CreatedUnixMs: s.CreatedUnixMs, Imported: s.Imported}, true
}
