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
	"github.com/wfhost/wfhost/host/internal/clock"
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
	Imported bool         `json:"imported,omitempty"` // made by an import: starts use it only by number
	New      bool         `json:"new"`                // made by this upload; false if it existed before
	// Queries that the workflow declares. Only Workflows.Version and LiveVersions set them.
	Queries []string `json:"queries,omitempty"`
	// Signals that the workflow declares. Only Workflows.Version and LiveVersions set them.
	Signals []string `json:"signals,omitempty"`
	// Updates that the workflow declares. Only Workflows.Version and LiveVersions set them.
	Updates []string `json:"updates,omitempty"`
	// Live is the number of live runs of the version. Only Workflows.LiveVersions sets it.
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
	steps, http, secrets bool     // whether grants of this kind were given
	only                 []string // of OnlyWorkflows
	stored               bool     // the module was stored
	err                  error
}

// AllowStep allows the version to call the handlers of these names ("*" for all). Without it, a version inherits the
// grants of the previous version, under the conditions of Upload.
func AllowStep(names ...string) UploadOption {
	return func(u *upload) {
		u.steps = true
		u.grants.Steps = append(u.grants.Steps, names...)
	}
}

// AllowHTTP allows bodies and step functions of the version, and its steps by host/http, to make requests to hosts of
// these patterns, [scheme://]host[:port]. The defaults are https and its port; "*." stands for any name below.
// Private, loopback and link-local addresses are reachable only if the pattern is such an address itself, or
// localhost. Without AllowHTTP, a version inherits the grants of the previous version; the first version may make no
// requests.
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
// pattern: the guest writes {{secret:NAME}} into that header's value, and never sees the value that is sent.
func AllowSecret(name, pattern, header string) UploadOption {
	return AllowSecretText(name + "=" + pattern + "," + header)
}

// AllowSecretText is AllowSecret with one text: NAME=pattern,Header.
func AllowSecretText(text string) UploadOption {
	return func(u *upload) {
		u.secrets = true
		if _, err := egress.ParseSecretGrant(text); err != nil {
			u.err = &joined{err, ErrInvalid}
		}
		u.grants.Secrets = append(u.grants.Secrets, text)
	}
}

// CheckGrants returns ErrInvalid for invalid grants, as Upload does.
func CheckGrants(opts ...UploadOption) error {
	var u upload
	for _, o := range opts {
		o(&u)
	}
	return u.err
}

// sorted sorts a list and removes duplicates.
func sorted(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// over returns the grants of the next version: grants that were not given are inherited from the version before.
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
// at most abi.MaxWorkflows, Upload makes a version of each, or of those in OnlyWorkflows. It returns the version of
// the workflow with this name, or any of them if name is empty. The same bytes with the same grants give the same
// version again.
//
// Upload inspects and compiles the module, and runs its start-up once. It does so for two modules at a time, and
// ErrBusy says that too many wait. *RejectError for a module that cannot be a workflow, ErrDiskFull if the disk has
// no room for it. The upload ends with ctx. It creates the namespace if it does not exist. Durable on return.
//
// An existing workflow gets a version of another module only if the caller names the workflow, by name or
// OnlyWorkflows; or names another workflow whose latest version came in the same module; or names none, and the new
// module lists the same workflows as the one before. Otherwise the whole upload is refused with ErrConflict.
// Workflows that are named in this way, and uploads of the same bytes, inherit grants that the upload does not give
// from the version before. A caller who names no workflow and would pass grants on to another module gets
// ErrConflict.
func (s *scope) Upload(ctx context.Context, name string, wasm []byte, opts ...UploadOption) (Version, error) {
	versions, err := s.UploadAll(ctx, name, wasm, opts...)
	if err != nil {
		return Version{}, err
	}
	i := slices.IndexFunc(versions, func(v Version) bool { return v.Workflow == name })
	return versions[max(i, 0)], nil
}

// UploadAll is Upload that returns the versions of all workflows of the module.
func (s *scope) UploadAll(ctx context.Context, name string, wasm []byte, opts ...UploadOption) ([]Version, error) {
	began := clock.System().Now()
	versions, err := s.upload(ctx, name, wasm, opts)
	err = s.slowly(ctx, began, err)
	if f := s.h.cfg.Events.UploadRefused; f != nil && errors.Is(err, ErrRejected) {
		f(name, err)
	}
	return versions, err
}

// largeModule is the size of modules after which a garbage collection pays. Its cost grows with the live heap of the
// process. A Go module has some MiB, a hand-written one a few KiB.
const largeModule = 1 << 20

func (s *nsRef) upload(ctx context.Context, name string, wasm []byte, opts []UploadOption) ([]Version, error) {
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
	if len(wasm) >= largeModule { // the upload leaves several times the size of the module as garbage
		defer freeMemory()
	}
	mod, description, err := s.h.rt.Versions.Prepare(ctx, wasm)
	if err == nil {
		mod.Close()
	}
	if ctx.Err() != nil { // the caller has given up, whatever Prepare returned
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

// uploadAttempts is how often an upload stores its module. A module may be deleted before its versions exist,
// together with the last version that had the same bytes.
const uploadAttempts = 10

// addVersions stores a module and makes a version of each workflow. A refused module is not stored, or its caller
// discards it.
func (s *nsRef) addVersions(ctx context.Context, c claim, wasm []byte, info store.ModuleInfo, u *upload) ([]Version, error) {
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

// discard deletes a module without versions. A concurrent upload of the same bytes stores it again. If the deletion
// fails, the next host repeats it.
func (h *Host) discard(ctx context.Context, d store.Digest) {
	if _, err := h.rt.Versions.DeleteUnused(context.WithoutCancel(ctx), d); err != nil {
		h.cfg.Logger.Warn("a module that no version has stays until the next start", "module", d, "cause", err)
	}
}

// unusedAtOnce is how many modules without versions are deleted at a time.
const unusedAtOnce = 256

// discardAll deletes the modules of interrupted uploads, for example after a crash. Errors do not prevent Open.
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

// freeEvery is the least time between two collections for uploads: their cost grows with the memory of the host.
const freeEvery = 10 * time.Second

// freed is when an upload last collected memory.
var freed struct {
	sync.Mutex
	at time.Time
}

// freeMemory returns the garbage of large uploads to the operating system, at most once every freeEvery.
func freeMemory() {
	freed.Lock()
	now := clock.System().Now()
	due := now.Sub(freed.at) >= freeEvery || now.Before(freed.at)
	if due {
		freed.at = now
	}
	freed.Unlock()
	if due {
		debug.FreeOSMemory()
	}
}

// addDecided makes the versions of a stored module. It decides by the latest versions, and again if another upload, on any host,
// has added one meanwhile.
func (s *nsRef) addDecided(ctx context.Context, ns store.NamespaceID, c claim, wasm []byte, info store.ModuleInfo, u *upload) (
	[]Version, error) {
	var before map[string]uint32
	var added []store.Version
	for {
		specs, numbers, err := s.decide(ctx, ns, c, wasm, u)
		if err != nil {
			return nil, err
		}
		for i := range specs {
			specs[i].CreatedUnixMs = info.StoredUnixMs
		}
		before = numbers
		added, err = s.h.store.Modules().AddVersions(ctx, specs)
		if err == nil {
			break
		}
		if !errors.Is(err, store.ErrConflict) || ctx.Err() != nil {
			return nil, err
		}
	}
	versions := make([]Version, len(added))
	for i, v := range added {
		versions[i] = versionOf(v)
		versions[i].New = v.Number > before[v.Workflow]
	}
	return versions, nil
}

// Version returns a version of a workflow; number 0 is the latest.
func (s Workflows) Version(ctx context.Context, name string, number uint32) (Version, error) {
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
func (s Workflows) Versions(ctx context.Context, name string) iter.Seq2[Version, error] {
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

// DeleteVersion deletes a version of a workflow, and its module if no other version has it; durable on return.
// ErrConflict if a run has the version, live or ended: delete those runs first. The number of the version is not
// reused.
func (s Workflows) DeleteVersion(ctx context.Context, workflow string, number uint32) error {
	if number == 0 {
		return &joined{errors.New("which version is to be deleted must be said: numbers begin at 1"), ErrInvalid}
	}
	ns, err := s.id(ctx, false)
	if err == nil {
		err = s.h.rt.Versions.Delete(ctx, ns, workflow, number)
	}
	return translate(err)
}

// LiveVersions lists the versions of a workflow, oldest first, with their numbers of live runs. These are maintained
// as runs change. ErrNotFound if there is no version.
func (s Workflows) LiveVersions(ctx context.Context, workflow string) (versions []Version, err error) {
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

// names returns the names that a module's description declares for a workflow. The result is cached.
func (s *nsRef) names(ctx context.Context, workflow string, module store.Digest) module.Names {
	return s.h.named.Of(module, workflow, func() ([]byte, error) {
		info, err := s.h.store.Modules().Info(ctx, module)
		return info.DescriptionJSON, err
	})
}

// described returns what a module's description declares for a workflow; the zero value if it has no description.
func (s *nsRef) described(ctx context.Context, workflow string, module store.Digest) (w abi.WorkflowDescription) {
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

// DeclaredSignals returns the names of the signals that a version of a workflow declares, empty if it declares none;
// number 0 is the latest version. Signal does not check them; a caller that accepts signals from untrusted clients
// should.
func (s Workflows) DeclaredSignals(ctx context.Context, workflow string, number uint32) ([]string, error) {
	v, err := s.Version(ctx, workflow, number)
	if err != nil {
		return nil, err
	}
	return v.Signals, nil
}

// SignalsOf is Workflows.DeclaredSignals for the workflow and version of a run. ErrNotFound if the run does not exist.
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
