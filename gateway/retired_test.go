package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// retirement is an identifier that may not be declared in a package any more.
type retirement struct{ pattern, name string }

// readRetirements reads testdata/retired.txt.
func readRetirements(t *testing.T) (all []retirement) {
	t.Helper()
	text, err := os.ReadFile("testdata/retired.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		for i := 1; i < len(words); i++ {
			all = append(all, retirement{words[0], words[i]})
		}
	}
	return all
}

func TestRetiredIdentifiersAreNotDeclared(t *testing.T) {
	t.Parallel()
	retired := readRetirements(t)
	met := make([]bool, len(retired)) // the package is there
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		names := map[string]string{} // where each is declared
		switch path.Ext(file) {
		case ".go":
			if err := declaredIn(file, names); err != nil {
				return err
			}
		case ".lua":
			names[d.Name()] = file
		default:
			return nil
		}
		for i, r := range retired {
			if !matches(r.pattern, path.Dir(file)) {
				continue
			}
			met[i] = true
			if at, declared := names[r.name]; declared {
				t.Errorf("%s: %s is retired there", at, r.name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range retired {
		if !met[i] {
			t.Errorf("testdata/retired.txt: there is no package %s", r.pattern)
		}
	}
}

// declaredIn adds to names what a Go file declares, apart from what functions declare.
func declaredIn(file string, names map[string]string) error {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, filepath.Join("..", filepath.FromSlash(file)), nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	add := func(ids ...*ast.Ident) {
		for _, id := range ids {
			names[id.Name] = fmt.Sprintf("%s:%d", file, set.Position(id.Pos()).Line)
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Name)
			return false
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.ValueSpec:
			add(n.Names...)
		case *ast.StructType:
			for _, f := range n.Fields.List {
				add(f.Names...)
			}
		case *ast.InterfaceType:
			for _, m := range n.Methods.List {
				add(m.Names...)
			}
		}
		return true
	})
	return nil
}
