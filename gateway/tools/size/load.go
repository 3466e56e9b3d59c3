package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
)

// module is a module with types, without its tests.
type module struct {
	packages []*pkg
	byFolder map[string]*pkg
}

// pkg is a package of a module.
type pkg struct {
	folder string // in the repository
	files  []*ast.File
	set    *token.FileSet
	root   string
	types  *types.Package
	uses   map[*ast.Ident]types.Object
}

// load type-checks the module whose go.mod is in root. Files for other platforms are left out.
func load(root string) (*module, error) {
	root, err := filepath.EvalSymlinks(root) // as the go command names files
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	found, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedModule,
		Dir:  root, Fset: set,
	}, "./...")
	if err != nil {
		return nil, err
	}
	m := &module{byFolder: map[string]*pkg{}}
	var faults []error
	for _, p := range found {
		for _, err := range p.Errors {
			faults = append(faults, err)
		}
		if p.Module == nil || p.Types == nil {
			faults = append(faults, fmt.Errorf("%s has no types", p.PkgPath))
			continue
		}
		folder := strings.TrimPrefix(strings.TrimPrefix(p.PkgPath, p.Module.Path), "/")
		loaded := &pkg{folder: folder, files: p.Syntax, set: set, root: root, types: p.Types, uses: p.TypesInfo.Uses}
		m.packages = append(m.packages, loaded)
		m.byFolder[folder] = loaded
	}
	return m, errors.Join(faults...)
}

// file returns the path in the repository of what stands at a position.
func (p *pkg) file(at token.Pos) string {
	name, err := filepath.Rel(p.root, p.set.Position(at).Filename)
	if err != nil {
		return p.set.Position(at).Filename
	}
	return filepath.ToSlash(name)
}
