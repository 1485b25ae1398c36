package bodies

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// TestFind finds the changes that functions make: each line has a function's statements and the expected changes.
func TestFind(t *testing.T) {
	for statements, want := range map[string]string{
		"total += 1":                             "[writes to total]",
		"total++; list[total] = 2":               "[writes to total writes to list[…]]",
		"total := 1; total++":                    "[]",
		"total, x := 1, 2; _, _ = total, x":      "[]",
		"*pointer = 1; (pointer.field).a = 2":    "[writes to *pointer writes to pointer.field.a]",
		"x := list; x[0] = 1":                    "[]",
		"_ = total":                              "[]",
		"func() { total = 1 }()":                 "[writes to total]",
		"for total = range list {}":              "[writes to total]",
		"for i, v := range list { _, _ = i, v }": "[]",
		"channel <- 1":                           "[sends on channel]",
		"delete(list, 1); clear(list)":           "[writes to list writes to list]",
		"copy(list[1:], list)":                   "[writes to list[…]]",
		"json.Unmarshal(nil, &total)":            "[decodes into total]",
		"send(&total)":                           "[]",
		"var v int; json.Unmarshal(nil, &v)":     "[]",
		"get().field = 1":                        "[]",
		"list = append(list, 1)":                 "[writes to list]",
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "a.go", "package a\nfunc f() {"+statements+"}", 0)
		if err != nil {
			t.Fatal(statements, err)
		}
		fn := file.Decls[0]
		got := Find(fn, func(id *ast.Ident) bool {
			return id.Obj == nil || id.Obj.Pos() < fn.Pos() || id.Obj.Pos() > fn.End()
		})
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", statements, got, want)
		}
	}
}

// TestAllowed reads the comments that allow changes.
func TestAllowed(t *testing.T) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "a.go", "package a\n//workflow:lost on purpose\nvar b int\nvar c int //workflow:lostly\n", parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(Allowed(fset, file)); got != "map[2:true 3:true]" {
		t.Error(got)
	}
}
