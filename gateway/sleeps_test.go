package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// testSupport are packages that only tests use, besides files named _test.go.
var testSupport = []string{
	"core/storetest/...", "core/store/redis/redistest", "core/store/file/internal/fsys/faultfs", "gateway/crosstowntest", "gateway/internal/rightstest",
	"gateway/internal/sdkerrors", "gateway/internal/sdkfaults", "gateway/internal/tracing/tracingtest", "gateway/internal/wsstream", "internal/eventually", "internal/freeport", "plugins/plugintest",
}

// Tests do not wait in real time: what depends on it fails on a busy machine. They sleep in a bubble of
// testing/synctest, or wait for a condition with internal/eventually. testdata/sleeps.txt lists the functions
// that sleep all the same, with their reasons.
func TestTestsSleepInBubblesOnly(t *testing.T) {
	t.Parallel()
	allowed := readSleeps(t)
	found := map[string]bool{}
	packages := map[string]map[string]*ast.File{}
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		inTests := strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testdata/") || slices.ContainsFunc(testSupport, func(p string) bool { return matches(p, path.Dir(file)) })
		if path.Ext(file) != ".go" || !inTests {
			return nil
		}
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := path.Dir(file)
		if packages[dir] == nil {
			packages[dir] = map[string]*ast.File{}
		}
		packages[dir][file] = parsed
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, files := range packages {
		for _, at := range sleepsOf(files) {
			found[at] = true
		}
	}
	for _, at := range slices.Sorted(maps.Keys(found)) {
		if !allowed[at] {
			t.Errorf("%s sleeps in real time: sleep in a bubble of testing/synctest, wait with internal/eventually, or list it in gateway/testdata/sleeps.txt with a reason", at)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(allowed)) {
		if !found[at] {
			t.Errorf("testdata/sleeps.txt: %s does not sleep in real time: remove it", at)
		}
	}
}

// readSleeps reads testdata/sleeps.txt.
func readSleeps(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("testdata/sleeps.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		at, reason, _ := strings.Cut(strings.TrimSpace(line), " ")
		if at == "" || at == "#" {
			continue
		}
		if strings.TrimSpace(reason) == "" {
			t.Errorf("testdata/sleeps.txt: %s has no reason", at)
		}
		all[at] = true
	}
	return all
}

// sleeper finds in the test files of a package what sleeps outside of bubbles.
type sleeper struct {
	files   map[string]*ast.File
	bubbles map[string]bool // functions that run a function they are given in a bubble
	inside  map[string]bool // functions that are called in bubbles only
}

// sleepsOf lists the functions of a package that sleep outside of bubbles, as FILE:FUNCTION.
func sleepsOf(files map[string]*ast.File) []string {
	s := &sleeper{files: files, bubbles: map[string]bool{"synctest.Test": true}, inside: map[string]bool{}}
	for changed := true; changed; {
		changed = s.findBubbles()
	}
	for changed := true; changed; {
		changed = s.findInside()
	}
	var all []string
	s.each(func(file string, f *ast.FuncDecl) {
		if s.inside[f.Name.Name] {
			return
		}
		s.walk(f.Body, false, func(n ast.Node, inBubble bool) {
			if !inBubble && nameOf(n) == "time.Sleep" {
				all = append(all, file+":"+f.Name.Name)
			}
		})
	})
	return all
}

// each calls f with every function that has a body.
func (s *sleeper) each(f func(file string, d *ast.FuncDecl)) {
	for file, parsed := range s.files {
		for _, d := range parsed.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				f(file, d)
			}
		}
	}
}

// walk visits what is below a node, and says whether it runs in a bubble: whether it is in an argument of a
// function that makes one.
func (s *sleeper) walk(root ast.Node, inBubble bool, visit func(n ast.Node, inBubble bool)) {
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			return false
		}
		visit(n, inBubble)
		call, ok := n.(*ast.CallExpr)
		if !ok || !s.bubbles[nameOf(call.Fun)] {
			return true
		}
		visit(call.Fun, inBubble)
		for _, argument := range call.Args {
			s.walk(argument, true, visit)
		}
		return false
	})
}

// findBubbles finds functions that call a parameter of theirs in a bubble, or pass it on to one that does.
func (s *sleeper) findBubbles() (changed bool) {
	s.each(func(_ string, f *ast.FuncDecl) {
		if s.bubbles[f.Name.Name] {
			return
		}
		parameters := map[string]bool{}
		for _, field := range f.Type.Params.List {
			if _, ok := field.Type.(*ast.FuncType); ok {
				for _, name := range field.Names {
					parameters[name.Name] = true
				}
			}
		}
		s.walk(f.Body, false, func(n ast.Node, inBubble bool) {
			if id, ok := n.(*ast.Ident); ok && inBubble && parameters[id.Name] {
				s.bubbles[f.Name.Name] = true
				changed = true
			}
		})
	})
	return changed
}

// findInside finds functions that are named in bubbles, and in functions that run in bubbles, only.
func (s *sleeper) findInside() (changed bool) {
	within, without := map[string]bool{}, map[string]bool{}
	note := func(n ast.Node, inBubble bool) {
		id, ok := n.(*ast.Ident)
		switch {
		case !ok:
		case inBubble:
			within[id.Name] = true
		default:
			without[id.Name] = true
		}
	}
	for _, parsed := range s.files {
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); !ok {
				s.walk(d, false, note)
			} else if f.Body != nil {
				s.walk(f.Body, s.inside[f.Name.Name], note)
			}
		}
	}
	s.each(func(_ string, f *ast.FuncDecl) {
		if name := f.Name.Name; within[name] && !without[name] && !s.inside[name] {
			s.inside[name] = true
			changed = true
		}
	})
	return changed
}

// nameOf is the name of a function that is called: sleep, time.Sleep, or the last part of another.
func nameOf(n ast.Node) string {
	switch n := n.(type) {
	case *ast.Ident:
		return n.Name
	case *ast.SelectorExpr:
		if id, ok := n.X.(*ast.Ident); ok && (id.Name == "time" || id.Name == "synctest") {
			return id.Name + "." + n.Sel.Name
		}
		return n.Sel.Name
	}
	return ""
}

func TestSleepsAreFoundOutsideOfBubbles(t *testing.T) {
	t.Parallel()
	const text = `package p
func TestSleeps(t *testing.T)  { time.Sleep(1) }
func TestBubble(t *testing.T)  { synctest.Test(t, func(t *testing.T) { time.Sleep(1); helper() }) }
func TestWrapper(t *testing.T) { in(t, func() { time.Sleep(1) }) }
func TestBoth(t *testing.T)    { synctest.Test(t, func(t *testing.T) { shared() }); shared() }
func TestBeside(t *testing.T)  { synctest.Test(t, func(t *testing.T) {}); func() { time.Sleep(1) }() }
func in(t *testing.T, f func()) { synctest.Test(t, func(t *testing.T) { f() }) }
func helper() { time.Sleep(1); further() }
func further() { time.Sleep(1) }
func shared() { time.Sleep(1) }
func unused() { time.Sleep(1) }
`
	parsed, err := parser.ParseFile(token.NewFileSet(), "f_test.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	got := sleepsOf(map[string]*ast.File{"f": parsed})
	slices.Sort(got)
	want := []string{"f:TestBeside", "f:TestSleeps", "f:shared", "f:unused"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: %s", got, want, strconv.Quote(text))
	}
}
