package runtime

import (
	"context"
	"sync"

	"github.com/wfhost/wfhost/host/internal/journal"
	"github.com/wfhost/wfhost/store"
)

// takes has the tokens of hooks that restarted and retried runs claim, until the store has the claims: these are carried out
// after the commits that make the runs go on. Of two restarts at once, the second one finds here what the first one takes.
type takes struct {
	mu sync.Mutex // held while a run takes over tokens
	by sync.Map   // takenToken to taking
}

type takenToken struct {
	ns    store.NamespaceID
	token string
}

// taking is the run that takes a token over.
type taking struct {
	run         store.RunKey
	incarnation store.Incarnation
}

// take calls check, which looks whether another run has the tokens of hooks, and then goOn, with which a run takes them over.
// No other restart or retry takes tokens over in between.
func (r *Runs) take(ctx context.Context, key store.RunKey, hooks []journal.Handle, check, goOn func() error) error {
	if len(hooks) == 0 {
		return goOn()
	}
	r.takes.mu.Lock()
	defer r.takes.mu.Unlock()
	if err := check(); err != nil {
		return err
	}
	if err := goOn(); err != nil {
		return err
	}
	r.takes.by.Range(func(token, by any) bool { // what the store knows by now
		t, of := token.(takenToken), by.(taking) //nolint:forcetypeassert // nothing else is stored
		if h, held, err := r.store.Hook(ctx, t.ns, t.token); err == nil && held && h.Run == of.run || !r.goesOn(ctx, of) {
			r.takes.by.Delete(token)
		}
		return true
	})
	if st, err := r.Durable(ctx, key); err == nil { // else it is gone by now
		for _, h := range hooks {
			r.takes.by.Store(takenToken{key.Namespace, h.Token}, taking{key, st.Incarnation})
		}
	}
	return nil
}

// taker returns the live run that takes a token over.
func (r *Runs) taker(ctx context.Context, ns store.NamespaceID, token string) (id string, taken bool) {
	by, taken := r.takes.by.Load(takenToken{ns, token})
	if !taken {
		return "", false
	}
	of := by.(taking) //nolint:forcetypeassert // nothing else is stored
	return of.run.ID, r.goesOn(ctx, of)
}

// goesOn reports whether a run has not ended, as far as that can be read.
func (r *Runs) goesOn(ctx context.Context, of taking) bool {
	st, err := r.Durable(ctx, of.run)
	return err == nil && st.Incarnation == of.incarnation && !st.Status.Terminal()
}
