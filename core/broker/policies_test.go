package broker

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
)

// A partition whose policy is changed has the operations of the old policy until it is resolved again.
func TestAChangedPolicyIsResolved(t *testing.T) {
	settings := map[string]bool{}
	for f := range reflect.TypeFor[core.Policy]().Fields() {
		settings[f.Name] = f.Name != "Sessions" // which counts have, too
	}
	changes := 0
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || path == filepath.FromSlash("internal/entity/view.go") {
			return err // view.go makes policies
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			resolved := map[string]bool{} // variables of which In is called
			ast.Inspect(f, func(n ast.Node) bool {
				if x, ok := n.(*ast.SelectorExpr); ok && x.Sel.Name == "In" {
					if of, ok := x.X.(*ast.Ident); ok {
						resolved[of.Name] = true
					}
				}
				return true
			})
			ast.Inspect(f, func(n ast.Node) bool {
				a, ok := n.(*ast.AssignStmt)
				if !ok {
					return true
				}
				for _, l := range a.Lhs {
					x, ok := l.(*ast.SelectorExpr)
					if !ok || !settings[x.Sel.Name] {
						continue
					}
					of, ok := x.X.(*ast.Ident)
					if !ok {
						continue
					}
					if changes++; !resolved[of.Name] {
						t.Errorf("%s: resolve %s again, with In, after its %s is changed", fset.Position(l.Pos()), of.Name, x.Sel.Name)
					}
				}
				return true
			})
		}
		return nil
	})
	if err != nil || changes == 0 {
		t.Fatalf("found %d changes, %v", changes, err)
	}
}
