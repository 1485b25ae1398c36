package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/schema"
	"github.com/wfhost/wfhost/store"
)

// OnlyWorkflows restricts an upload to these workflows of the module. This counts as naming them: each gets a version
// even if its latest version has another module, and inherits the grants of that version where the upload gives none.
// ErrInvalid if the module lists workflows and one of these is missing.
func OnlyWorkflows(names ...string) UploadOption {
	return func(u *upload) { u.only = append(u.only, names...) }
}

// claim is the set of workflows that an upload makes versions of.
type claim struct {
	names  []string // the workflows that get a version
	named  []string // the workflows that the caller named
	listed []string // all workflows that the module lists, in its order; if it lists none, its only one
}

// claimOf reads the workflows that a module lists and selects those for the upload: the workflows of OnlyWorkflows if
// there are any, otherwise all, whether the caller names one of them or none.
func claimOf(ctx context.Context, name string, only []string, description []byte) (c claim, err error) {
	c.listed, err = listedBy(description)
	if err != nil {
		return c, &joined{fmt.Errorf("module rejected: %w", err), ErrRejected}
	}
	if err := schema.OfModule(ctx, description); err != nil {
		if ended := ctx.Err(); ended != nil {
			return c, ended
		}
		return c, &joined{fmt.Errorf("module rejected: %w", err), ErrRejected}
	}
	c.named = slices.Clone(only)
	if name != "" && !slices.Contains(c.named, name) {
		c.named = append(c.named, name)
	}
	c.named = sorted(c.named)
	if len(only) > 0 && !slices.Contains(only, name) && name != "" {
		return c, &joined{fmt.Errorf("the workflow is %q, and only versions of %q were asked for", name, only), ErrInvalid}
	}
	if len(c.listed) == 0 {
		if len(c.named) > 1 {
			return c, &joined{fmt.Errorf("the module lists no workflows, so it is one, and %d were named: %q", len(c.named), c.named),
				ErrInvalid}
		}
		one := strings.Join(c.named, "")
		if err := abi.CheckWorkflow(one); err != nil {
			return c, translate(err)
		}
		c.names, c.listed = []string{one}, []string{one}
		return c, nil
	}
	for _, n := range c.named {
		if !slices.Contains(c.listed, n) {
			return c, &joined{fmt.Errorf("the module has no workflow %q, it has %q", n, c.listed), ErrInvalid}
		}
	}
	c.names = c.listed
	if len(only) > 0 {
		c.names = c.named
	}
	return c, nil
}

// listedBy returns the names of the workflows in a description; nil if it lists none.
func listedBy(description []byte) ([]string, error) {
	d, err := schema.Read(description)
	if err != nil {
		return nil, err
	}
	if len(d.Workflows) > abi.MaxWorkflows {
		return nil, fmt.Errorf("it lists %d workflows, the limit is %d", len(d.Workflows), abi.MaxWorkflows)
	}
	var names []string
	for _, w := range d.Workflows {
		if err := abi.CheckWorkflow(w.Name); err != nil {
			return nil, err
		}
		if slices.Contains(names, w.Name) {
			return nil, fmt.Errorf("it lists the workflow %q more than once", w.Name)
		}
		names = append(names, w.Name)
	}
	return names, nil
}

// decide determines the versions that an upload makes, and their grants. It returns the numbers of the versions
// before them. ErrConflict if the caller may not replace one of the workflows.
func (s *nsRef) decide(ctx context.Context, ns store.NamespaceID, c claim, wasm []byte, u *upload) ([]store.VersionSpec,
	map[string]uint32, error) {
	m, d := s.h.store.Modules(), store.Digest(sha256.Sum256(wasm))
	latest := map[string]store.Version{}
	before := map[string]uint32{}
	for _, n := range c.names {
		v, err := m.Version(ctx, ns, n, 0)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		latest[n], before[n] = v, v.Number
	}
	var foreign []string
	specs := make([]store.VersionSpec, 0, len(c.names))
	for _, n := range c.names {
		after := before[n]
		spec := store.VersionSpec{Namespace: ns, Workflow: n, Module: d, Grants: u.grants, After: &after}
		if v, ok := latest[n]; ok {
			spec.Grants = u.over(v.Grants)
			if v.Module != d && !c.covers(v, latest) {
				same, err := c.sameList(ctx, m, v)
				switch {
				case err != nil:
					return nil, nil, err
				case !same:
					foreign = append(foreign, fmt.Sprintf("%s@%d", n, v.Number))
				case !spec.Grants.Equal(u.grants):
					return nil, nil, &joined{fmt.Errorf("%s@%d has grants that this upload does not give, and another module inherits "+
						"them only if the workflow is named: name it (--workflow %s), or give the grants", n, v.Number, n), ErrConflict}
				}
			}
		}
		specs = append(specs, spec)
	}
	if len(foreign) > 0 {
		return nil, nil, &joined{fmt.Errorf("the module lists workflows that came with another module: %s; nothing was uploaded. "+
			"Name the workflows that are meant (--workflow NAME): these alone get versions, and of those that are there already "+
			"they inherit the grants", some(foreign)), ErrConflict}
	}
	return specs, before, s.roomForVersions(ctx, ns, specs)
}

// some joins the first few items of a list.
func some(list []string) string {
	const few = 5
	if len(list) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:few], ", "), len(list)-few)
	}
	return strings.Join(list, ", ")
}

// covers reports whether the caller named the workflow of a version, or another workflow whose latest version is from
// the same module.
func (c *claim) covers(v store.Version, latest map[string]store.Version) bool {
	return slices.ContainsFunc(c.named, func(n string) bool { return n == v.Workflow || latest[n].Module == v.Module })
}

// sameList reports whether the caller named no workflow and the module of v lists the same workflows as the new module.
func (c *claim) sameList(ctx context.Context, m store.ModuleStore, v store.Version) (bool, error) {
	if len(c.named) > 0 {
		return false, nil
	}
	info, err := m.Info(ctx, v.Module)
	if err != nil {
		return false, err
	}
	listed, err := listedBy(info.DescriptionJSON)
	if err != nil { // it was uploaded before there was a bound
		return false, nil //nolint:nilerr // and has another list
	}
	if len(listed) == 0 {
		listed = []string{v.Workflow}
	}
	return slices.Equal(sorted(listed), sorted(slices.Clone(c.listed))), nil
}
