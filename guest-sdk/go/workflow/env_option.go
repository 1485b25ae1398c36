//go:build !wasip1

package workflow

// EnvOption is an option of NewEnv.
type EnvOption func(*Env)

// EnvRunID sets the id of the run under test. The default is "test".
func EnvRunID(id string) EnvOption { return func(e *Env) { e.id = id } }
