package expression

import (
	"errors"
	"strings"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/optimizer"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
)

// languages are the configurations of the library, by the names that expressions may use. expr.Compile would make one for each
// expression: a table of all functions, which takes more time than to compile a short expression. The mutex is held while an
// expression is compiled: the library keeps in a configuration what it finds out about types.
var languages struct {
	sync.Mutex
	by map[string]*conf.Config
}

// language returns the configuration for expressions that may use the given names; languages is locked. There is one for each
// list of names that this program has, some ten.
func language(names []string) *conf.Config {
	key := strings.Join(names, " ")
	if c := languages.by[key]; c != nil {
		return c
	}
	env := types.Map{}
	for _, n := range names {
		env[n] = types.Any
	}
	c := conf.CreateNew()
	for _, o := range append(functions(), expr.Env(env), expr.AsAny(), expr.MaxNodes(maxNodes),
		expr.DisableBuiltin("now"), // it would be another instant at each evaluation
		expr.Function("keys", sorted(func(k string, _ any) any { return k })),
		expr.Function("values", sorted(func(_ string, v any) any { return v })),
		expr.Function("toPairs", sorted(func(k string, v any) any { return []any{k, v} }))) {
		o(c)
	}
	for name := range c.Disabled {
		delete(c.Builtins, name)
	}
	if languages.by == nil {
		languages.by = map[string]*conf.Config{}
	}
	languages.by[key] = c
	return c
}

// compile compiles an expression as expr.Compile does.
func compile(text string, names []string, visitors ...ast.Visitor) (*vm.Program, error) {
	languages.Lock()
	defer languages.Unlock()
	config := language(names)
	config.Visitors = append(visitors, exact{})
	tree, err := checker.ParseCheck(text, config)
	if err != nil {
		return nil, err
	}
	if err := optimizer.Optimize(&tree.Node, config); err != nil {
		if at, ok := errors.AsType[*file.Error](err); ok {
			return nil, at.Bind(tree.Source)
		}
		return nil, err
	}
	return compiler.Compile(tree, config)
}
