package runtime

import (
	"context"
	"sync"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// takeovers holds the tokens that restarted and retried runs are taking over, until the store has their claims. The claims are
// carried out after the commit that starts or resumes the run. Of two concurrent restarts, the second finds the first one's
// tokens here.
type takeovers struct {
	mu sync.Mutex // held while a run takes over tokens, including the check before and the commit
	by sync.Map   // takenToken to newOwner
}

type takenToken struct {
	ns    store.NamespaceID
	token string
}

// newOwner identifies the run that takes a token over.
type newOwner struct {
	run         store.RunKey
	incarnation store.Incarnation
}

// takeOver starts or resumes a run that takes over the tokens of hooks. It calls check, which returns an error if another run has
// the tokens, and then goOn. It holds takeovers.mu during both calls, so no other restart or retry takes tokens in between.
// Without hooks it calls only goOn.
func (r *Runs) takeOver(ctx context.Context, key store.RunKey, hooks []journal.Handle, check, goOn func() error) error {
	if len(hooks) == 0 {
		return goOn()
	}
	r.takeovers.mu.Lock()
	defer r.takeovers.mu.Unlock()
	if err := check(); err != nil {
		return err
	}
	if err := goOn(); err != nil {
		return err
	}
	r.takeovers.by.Range(func(token, by any) bool { // remove the claims that the store has by now, and those of ended runs
		t, of := token.(takenToken), by.(newOwner) //nolint:forcetypeassert // nothing else is stored
		if h, held, err := r.store.Hook(ctx, t.ns, t.token); err == nil && held && h.Run == of.run || !r.goesOn(ctx, of) {
			r.takeovers.by.Delete(token)
		}
		return true
	})
	if st, err := r.Durable(ctx, key); err == nil { // an error means that the run is gone
		for _, h := range hooks {
			r.takeovers.by.Store(takenToken{key.Namespace, h.Token}, newOwner{key, st.Incarnation})
		}
	}
	return nil
}

// taker returns the live run that is taking a token over.
func (r *Runs) taker(ctx context.Context, ns store.NamespaceID, token string) (id string, taken bool) {
	by, taken := r.takeovers.by.Load(takenToken{ns, token})
	if !taken {
		return "", false
	}
	of := by.(newOwner) //nolint:forcetypeassert // nothing else is stored
	return of.run.ID, r.goesOn(ctx, of)
}

// goesOn reports whether a run is live; false if its state cannot be read.
func (r *Runs) goesOn(ctx context.Context, of newOwner) bool {
	st, err := r.Durable(ctx, of.run)
	return err == nil && st.Incarnation == of.incarnation && !st.Status.Terminal()
}
