package host

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/wfhost/wfhost/abi"
	"github.com/wfhost/wfhost/host/internal/budget"
	"github.com/wfhost/wfhost/host/internal/egress"
	"github.com/wfhost/wfhost/host/internal/module"
	"github.com/wfhost/wfhost/host/internal/wasm/validate"
	"github.com/wfhost/wfhost/store"
)

// Version is one version of a workflow.
type Version struct {
	Workflow string       `json:"workflow"`
	Number   uint32       `json:"version"`
	Module   store.Digest `json:"-"`
	Digest   string       `json:"module"` // SHA-256 of the module in hexadecimal
	Steps    []string     `json:"allow_step,omitempty"`
	HTTP     []string     `json:"allow_http,omitempty"`
	Secrets  []string     `json:"allow_secret,omitempty"`
	Created  time.Time    `json:"created"`
	Imported bool         `json:"imported,omitempty"` // made by an import: no start uses it that does not name it
	New      bool         `json:"new"`                // made by this upload; false if it was there
	// Queries that the workflow says it offers; only Workflow and LiveVersions give them.
	Queries []string `json:"queries,omitempty"`
	// Signals that the workflow says it receives; only Workflow and LiveVersions give them.
	Signals []string `json:"signals,omitempty"`
	// Updates that the workflow says it takes; only Workflow and LiveVersions give them.
	Updates []string `json:"updates,omitempty"`
	// Live is how many live runs have the version; only LiveVersions counts them.
	Live int `json:"live"`
}

func versionOf(v store.Version) Version {
	return Version{Workflow: v.Workflow, Number: v.Number, Module: v.Module, Digest: v.Module.String(),
		Steps: v.Grants.Steps, HTTP: v.Grants.HTTPHosts, Secrets: v.Grants.Secrets, Created: time.UnixMilli(v.CreatedUnixMs).UTC(),
		Imported: v.Imported}
}

// UploadOption is an option of Upload.
type UploadOption func(*upload)

type upload struct {
	grants               store.Grants
	steps, http, secrets bool     // these were given
	only                 []string // of OnlyWorkflows
	stored               bool     // the module was
	err                  error
}

// AllowStep allows the version to call the handlers of these names ("*" for all). Without it, a version may call
// what the version before it might, if Upload says so.
func AllowStep(names ...string) UploadOption {
	return func(u *upload) {
		u.steps = true
		u.grants.Steps = append(u.grants.Steps, names...)
	}
}

// AllowHTTP allows bodies and step functions of the version, and its steps by host/http, to make requests to hosts of
// these patterns, [scheme://]host[:port]: https and its port unless they say otherwise, "*." for any name below.
// Private, loopback and link-local addresses can be reached only where the pattern is such an address itself, or
// localhost. Without it, a version may request what the version before it might; the first one, nothing.
func AllowHTTP(patterns ...string) UploadOption {
	return func(u *upload) {
		u.http = true
		for _, p := range patterns {
			if _, err := egress.ParsePattern(p); err != nil {
				u.err = &joined{err, ErrInvalid}
			}
		}
		u.grants.HTTPHosts = append(u.grants.HTTPHosts, patterns...)
	}
}

// AllowSecret allows the version to send a secret of Config.Secrets in one header of requests to hosts of one
// pattern: the guest writes {{secret:NAME}} into that header's value, and never sees what goes out.
func AllowSecret(name, pattern, header string) UploadOption {
	return AllowSecretText(name + "=" + pattern + "," + header)
}

// AllowSecretText is AllowSecret in one text: NAME=pattern,Header.
func AllowSecretText(text string) UploadOption {
	return func(u *upload) {
		u.secrets = true
		if _, err := egress.ParseSecretGrant(text); err != nil {
			u.err = &joined{err, ErrInvalid}
		}
		u.grants.Secrets = append(u.grants.Secrets, text)
	}
}

// CheckGrants returns ErrInvalid for grants that cannot be, as Upload does.
func CheckGrants(opts ...UploadOption) error {
	var u upload
	for _, o := range opts {
		o(&u)
	}
	return u.err
}

// sorted returns a list sorted and without repetitions.
func sorted(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// over returns the grants of the next version: what was not given is as in the version before.
func (u *upload) over(before store.Grants) store.Grants {
	g := u.grants
	if !u.steps {
		g.Steps = before.Steps
	}
	if !u.http {
		g.HTTPHosts = before.HTTPHosts
	}
	if !u.secrets {
		g.Secrets = before.Secrets
	}
	return g
}

// Upload stores a module as the next version of a workflow, and returns that version. If the module lists workflows,
// at most abi.MaxWorkflows, Upload makes a version of each, or of those of OnlyWorkflows, and returns that of the one
// named, or of any if name is empty. The same bytes with the same grants again are the same version.
//
// Upload inspects and compiles the module, and runs its start-up once; two modules at a time, and ErrBusy says that
// too many wait. It returns a *RejectError for a module that cannot be a workflow, and ErrDiskFull if the disk has no
// room for it. It ends with ctx. It creates a namespace that does not exist. Durable on return.
//
// An existing workflow gets a version of another module only if the caller names it, by name or OnlyWorkflows; or
// names another one whose latest version came in the same module; or names none, and the new module lists the same
// workflows as the one before. Otherwise the whole upload is refused with ErrConflict. Workflows that are named in
// this way, and uploads of the same bytes, inherit the grants that the upload does not give from the version before.
// A caller who names none and would pass grants on to another module gets ErrConflict.
func (s *scope) Upload(ctx context.Context, name string, wasm []byte, opts ...UploadOption) (Version, error) {
	versions, err := s.UploadAll(ctx, name, wasm, opts...)
	if err != nil {
		return Version{}, err
	}
	i := slices.IndexFunc(versions, func(v Version) bool { return v.Workflow == name })
	return versions[max(i, 0)], nil
}

// UploadAll is Upload, and returns the versions of all workflows of the module.
func (s *scope) UploadAll(ctx context.Context, name string, wasm []byte, opts ...UploadOption) ([]Version, error) {
	began := budget.Clock.Now()
	versions, err := s.upload(ctx, name, wasm, opts)
	err = s.slowly(ctx, began, err)
	if f := s.h.cfg.Events.UploadRefused; f != nil && errors.Is(err, ErrRejected) {
		f(name, err)
	}
	return versions, err
}

// largeModule is the size from which a module leaves so much garbage that a collection pays, which costs what the whole
// process has alive: a module of Go has some MiB, one that was made by hand a few KiB.
const largeModule = 1 << 20

func (s *scope) upload(ctx context.Context, name string, wasm []byte, opts []UploadOption) ([]Version, error) {
	var u upload
	for _, o := range opts {
		o(&u)
	}
	if u.err != nil {
		return nil, u.err
	}
	u.grants.Steps, u.grants.HTTPHosts = sorted(u.grants.Steps), sorted(u.grants.HTTPHosts)
	u.grants.Secrets = sorted(u.grants.Secrets)
	if _, err := validate.Scan(wasm); err != nil {
		return nil, translate(err)
	}
	if err := s.h.roomOnDisk(moduleTimes * len(wasm)); err != nil {
		return nil, err
	}
	if err := s.roomForModule(ctx, wasm); err != nil {
		return nil, translate(err)
	}
	if len(wasm) >= largeModule { // its upload leaves several times the module and its code behind
		defer freeMemory()
	}
	mod, description, err := s.h.rt.Versions.Prepare(ctx, wasm)
	if err == nil {
		mod.Close()
	}
	if ctx.Err() != nil { // whatever the module would have become
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, rejected(err)
	}
	c, err := claimOf(ctx, name, u.only, description)
	if err != nil {
		return nil, err
	}
	info := store.ModuleInfo{Size: int64(len(wasm)), StoredUnixMs: s.h.cfg.Clock.Now().UnixMilli(), DescriptionJSON: description}
	var versions []Version
	for range uploadAttempts {
		versions, err = s.addVersions(ctx, c, wasm, info, &u)
		if !errors.Is(err, store.ErrNotFound) {
			break
		}
	}
	if err != nil && u.stored {
		s.h.discard(ctx, sha256.Sum256(wasm))
	}
	return versions, translate(err)
}

// uploadAttempts is how often an upload stores its module, which may be deleted before its versions are there, together
// with the last version that had the same bytes.
const uploadAttempts = 10

// addVersions stores a module and makes a version of each workflow. A module that is refused is not stored, or not for long.
func (s *scope) addVersions(ctx context.Context, c claim, wasm []byte, info store.ModuleInfo, u *upload) ([]Version, error) {
	ns, err := s.id(ctx, true)
	if err != nil {
		return nil, err
	}
	if _, _, err := s.decide(ctx, ns, c, wasm, u); err != nil {
		return nil, err
	}
	if _, err := s.h.store.Modules().Put(ctx, wasm, info); err != nil {
		return nil, err
	}
	u.stored = true
	return s.addDecided(ctx, ns, c, wasm, info, u)
}

// discard deletes a module that was stored for nothing, unless it has versions. An upload of the same bytes in flight
// stores them again. If it fails, the next host does it.
func (h *Host) discard(ctx context.Context, d store.Digest) {
	if _, err := h.rt.Versions.DeleteUnused(context.WithoutCancel(ctx), d); err != nil {
		h.cfg.Logger.Warn("a module that no version has stays until the next start", "module", d, "cause", err)
	}
}

// unusedAtOnce is how many modules that no version has are deleted at a time.
const unusedAtOnce = 256

// discardAll deletes the modules of uploads that were cut, by a crash for example. It keeps no host from being opened.
func (h *Host) discardAll(ctx context.Context) {
	if h.copied {
		return
	}
	var list []store.Digest
	n, err := 0, error(nil)
	for more := true; more && err == nil; more = len(list) == unusedAtOnce {
		list, err = h.store.Modules().Unused(ctx, unusedAtOnce)
		if err == nil && len(list) > 0 {
			var deleted int
			deleted, err = h.rt.Versions.DeleteUnused(ctx, list...)
			n += deleted
		}
	}
	if err != nil {
		h.cfg.Logger.Warn("modules that no version has stay until the next start", "cause", err)
	}
	if n > 0 {
		h.cfg.Logger.Info("deleted modules of uploads that were cut", "modules", n)
	}
}

// freeEvery is how often uploads may have all of the memory collected: that takes the longer, the more the host holds.
const freeEvery = 10 * time.Second

// freed is when an upload has last had memory collected.
var freed struct {
	sync.Mutex
	at time.Time
}

// freeMemory returns what large uploads leave to the operating system, unless another one has just done so.
func freeMemory() {
	freed.Lock()
	now := budget.Clock.Now()
	due := now.Sub(freed.at) >= freeEvery || now.Before(freed.at)
	if due {
		freed.at = now
	}
	freed.Unlock()
	if due {
		debug.FreeOSMemory()
	}
}

// addDecided makes the versions of a module that is stored. What other uploads have done meanwhile counts.
func (s *scope) addDecided(ctx context.Context, ns store.NamespaceID, c claim, wasm []byte, info store.ModuleInfo, u *upload) (
	[]Version, error) {
	mu := &deciding[int(ns)%len(deciding)]
	mu.Lock()
	defer mu.Unlock()
	specs, before, err := s.decide(ctx, ns, c, wasm, u)
	if err != nil {
		return nil, err
	}
	for i := range specs {
		specs[i].CreatedUnixMs = info.StoredUnixMs
	}
	added, err := s.h.store.Modules().AddVersions(ctx, specs)
	if err != nil {
		return nil, err
	}
	versions := make([]Version, len(added))
	for i, v := range added {
		versions[i] = versionOf(v)
		versions[i].New = v.Number > before[v.Workflow]
	}
	return versions, nil
}

// Workflow returns a version of a workflow; number 0 is the latest.
func (s *scope) Workflow(ctx context.Context, name string, number uint32) (Version, error) {
	ns, err := s.id(ctx, false)
	if err != nil {
		return Version{}, translate(err)
	}
	x, err := s.h.store.Modules().Version(ctx, ns, name, number)
	if err != nil {
		return Version{}, translate(err)
	}
	v, d := versionOf(x), s.names(ctx, name, x.Module)
	v.Queries, v.Signals, v.Updates = d.Queries, d.Signals, d.Updates
	return v, nil
}

// Versions lists the versions of a workflow, oldest first; of all workflows if name is empty.
func (s *scope) Versions(ctx context.Context, name string) iter.Seq2[Version, error] {
	return func(yield func(Version, error) bool) {
		ns, err := s.id(ctx, false)
		if err != nil {
			yield(Version{}, translate(err))
			return
		}
		for v, err := range s.h.store.Modules().Versions(ctx, ns, name) {
			if !yield(versionOf(v), translate(err)) || err != nil {
				return
			}
		}
	}
}

// DeleteVersion deletes a version of a workflow, with its module if no other version has it; durable on return.
// A version that any run has, live or ended, is in use and refused with ErrConflict until those runs are deleted.
// Its number is not given again.
func (s *scope) DeleteVersion(ctx context.Context, workflow string, number uint32) error {
	if number == 0 {
		return &joined{errors.New("which version is to be deleted must be said: numbers begin at 1"), ErrInvalid}
	}
	ns, err := s.id(ctx, false)
	if err == nil {
		err = s.h.rt.Versions.Delete(ctx, ns, workflow, number)
	}
	return translate(err)
}

// LiveVersions lists the versions of a workflow, oldest first, with the number of their live runs, which are counted as they
// change. ErrNotFound if there is no version.
func (s *scope) LiveVersions(ctx context.Context, workflow string) (versions []Version, err error) {
	ns, err := s.id(ctx, false)
	if err != nil {
		return nil, translate(err)
	}
	for v, err := range s.Versions(ctx, workflow) {
		if err != nil {
			return nil, err
		}
		runs, err := s.h.store.CountOf(ctx, ns, v.Workflow, v.Number)
		if err != nil {
			return nil, translate(err)
		}
		d := s.names(ctx, v.Workflow, v.Module)
		v.Live, v.Queries, v.Signals, v.Updates = int(runs.Live()), d.Queries, d.Signals, d.Updates
		versions = append(versions, v)
	}
	if len(versions) == 0 {
		return nil, &joined{fmt.Errorf("workflow %q: %w", workflow, ErrNotFound), ErrNotFound}
	}
	return versions, nil
}

// names returns the names in what a module's description says of a workflow. They are read once.
func (s *scope) names(ctx context.Context, workflow string, module store.Digest) module.Names {
	return s.h.named.Of(module, workflow, func() ([]byte, error) {
		info, err := s.h.store.Modules().Info(ctx, module)
		return info.DescriptionJSON, err
	})
}

// described returns what a module's description says of a workflow; nothing, if it has none.
func (s *scope) described(ctx context.Context, workflow string, module store.Digest) (w abi.WorkflowDescription) {
	info, err := s.h.store.Modules().Info(ctx, module)
	var d abi.Description
	if err != nil || json.Unmarshal(info.DescriptionJSON, &d) != nil {
		return w
	}
	for _, w := range d.Workflows {
		if w.Name == workflow {
			return w
		}
	}
	return w
}

// DeclaredSignals returns the names of the signals that a version of a workflow declares, none if it does not declare
// any; number 0 is the latest version. Signal does not check them; a caller that accepts signals from strangers
// should.
func (s *scope) DeclaredSignals(ctx context.Context, workflow string, number uint32) ([]string, error) {
	v, err := s.Workflow(ctx, workflow, number)
	if err != nil {
		return nil, err
	}
	return v.Signals, nil
}

// SignalsOf is DeclaredSignals of the workflow and version of a run. ErrNotFound if there is no such run.
func (s *scope) SignalsOf(ctx context.Context, id string) ([]string, error) {
	key, err := s.key(ctx, id)
	if err != nil {
		return nil, translate(err)
	}
	st, err := s.h.rt.Runs.Durable(ctx, key)
	if err != nil {
		return nil, translate(err)
	}
	return s.names(ctx, st.Workflow, st.Module).Signals, nil
}
