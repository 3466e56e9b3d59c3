package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// files are those of a small module.
type files map[string]string

// written writes the files of a module and returns its root.
func written(t *testing.T, all files) string {
	t.Helper()
	root := t.TempDir()
	all["go.mod"] = "module example.com/small\n\ngo 1.26.0\n"
	for name, text := range all {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func loaded(t *testing.T, all files) *module {
	t.Helper()
	m, err := load(written(t, all))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const small = `package core

type Sender interface{ Send(); Close() }
type Receiver interface{ Drain(); Close() }
type Session interface{ Receiver; Lock() }
type Transaction interface{ Commit() }
type Broker interface{ Resolve() }
type Admin interface{ Reset() }
type Operations interface{ Append(); Settle() }
type Store interface{ Now() }
`

func TestOverridesAreMethodsThatAWrapperDeclares(t *testing.T) {
	t.Parallel()
	m := loaded(t, files{
		"core/core.go":       small,
		"core/faults/one.go": "package faults\n\nimport \"example.com/small/core\"\n\ntype partition struct{ core.Operations }\n\nfunc (partition) Append() {}\nfunc (partition) Other() {}\n",
		// Session has Close of Receiver too: it counts once.
		"core/faults/two.go":    "package faults\n\nimport \"example.com/small/core\"\n\ntype session struct{ core.Session }\n\nfunc (*session) Close() {}\nfunc (*session) Lock() {}\n",
		"core/taps/taps.go":     "package taps\n\ntype sender struct{}\n\nfunc (sender) Send() {}\nfunc (sender) Close() {}\n\ntype closer struct{}\n\nfunc (closer) Close() {}\n",
		"core/broker/broker.go": "package broker\n\ntype Broker struct{}\n\nfunc (Broker) Resolve() {}\n",
		"core/storetest/all.go": "package storetest\n\ntype fake struct{}\n\nfunc (fake) Resolve() {}\n",
	})
	found, err := overrides(m, fronts)
	if err != nil {
		t.Fatal(err)
	}
	want := []wrapper{
		{folder: "core/faults", methods: 3, files: []string{"core/faults/one.go", "core/faults/two.go"}},
		{folder: "core/taps", methods: 2, files: []string{"core/taps/taps.go"}},
	}
	if fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", found, want)
	}
}

func TestReferencesBetweenFilesOfAPackage(t *testing.T) {
	t.Parallel()
	m := loaded(t, files{
		// a uses b by a field of an instance of a generic type, b uses a; both use c, which uses nobody.
		"p/a.go": "package p\n\nimport \"fmt\"\n\ntype A struct{ B[int] }\n\nvar first = A{}.field + c\n\nvar _ = fmt.Sprint(first, own)\n\nvar own int\n",
		"p/b.go": "package p\n\nimport \"fmt\"\n\ntype B[T any] struct{ field T }\n\nfunc (b *B[T]) use(a A) { fmt.Print(c, a) }\n",
		"p/c.go": "package p\n\nconst c = 1\n",
	})
	got := refer(m.byFolder["p"])
	// a: B, field, c; b: A, c. In the cycle: B, field, A.
	if want := (references{all: 5, inCycle: 3, largest: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestComponentsOfAGraph(t *testing.T) {
	t.Parallel()
	graph := map[string]map[string]int{
		"a": {"b": 1}, "b": {"c": 1, "d": 1}, "c": {"a": 1}, // one cycle of three
		"d": {"e": 1}, "e": {"d": 1, "f": 1}, // one of two
		"f": {}, "g": {"a": 1, "f": 1}, // none
	}
	groups := map[int][]string{}
	for node, number := range components(graph) {
		groups[number] = append(groups[number], node)
	}
	var got []string
	for _, nodes := range groups {
		slices.Sort(nodes)
		got = append(got, strings.Join(nodes, ""))
	}
	slices.Sort(got)
	if want := []string{"abc", "de", "f", "g"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := inCycles(graph), (references{all: 9, inCycle: 5, largest: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTheTableNamesWrappersAndLargePackages(t *testing.T) {
	t.Parallel()
	all := files{
		"core/core.go":         small,
		"core/faults/store.go": "package faults\n\nimport \"example.com/small/core\"\n\ntype partition struct{ core.Operations }\n\nfunc (partition) Append() {}\n",
	}
	for i := range 26 {
		all[fmt.Sprintf("big/f%d.go", i)] = fmt.Sprintf("package big\n\nvar v%d = v%d\n", i, i+1)
	}
	all["big/f25.go"] = "package big\n\nvar v25 = 1\n"
	root := written(t, maps.Clone(all))
	var out bytes.Buffer
	if err := run(&out, root, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"       95  the product itself",
		"        1  of core.Store",
		"        2  of core.Partition",
		"        1  places outside",
		"        1    core/faults",
		"packages of more than 25 files: 1\n",
		"       26  big                               25    0.0 %    0",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, out.String())
		}
	}
}

func TestCodeThatDoesNotCompileIsAnError(t *testing.T) {
	t.Parallel()
	if err := run(&bytes.Buffer{}, written(t, files{"core/core.go": "package core\n\nvar x int = \"\"\n"}), false); err == nil {
		t.Error("no error")
	}
}
