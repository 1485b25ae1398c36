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

// languages caches the library's configurations by the names that expressions may use. expr.Compile would make a configuration
// for each expression. It has a table of all functions, which takes longer to make than a short expression to compile. The
// mutex is held during a compilation, because the library caches facts about types in the configuration.
var languages struct {
	sync.Mutex
	by map[string]*conf.Config
}

// language returns the configuration for expressions that may use the given names. The caller holds the lock of languages. The
// program has about ten different lists of names.
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
		expr.DisableBuiltin("now"), // its value differs at each evaluation
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
