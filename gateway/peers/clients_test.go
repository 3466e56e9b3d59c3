package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestTheModuleOfClientsIsKept type-checks the module that is built on demand, where
// its dependencies are in the module cache.
func TestTheModuleOfClientsIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	environ := append(slices.Clone(os.Environ()), "GOPROXY=off", "GOFLAGS=-mod=mod")
	mod := clientsModule(t, dir)
	list := exec.Command("go", "list", "-modfile="+mod, "-deps", ".")
	list.Dir, list.Env = "clients", environ
	if out, err := list.CombinedOutput(); err != nil {
		t.Skipf("its dependencies are not in the module cache: make bench-peers downloads it: %s", out)
	}
	vet := exec.Command("go", "vet", "-modfile="+mod, ".")
	vet.Dir, vet.Env = "clients", environ
	if out, err := vet.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func clientsModule(t *testing.T, dir string) string {
	t.Helper()
	source, err := filepath.Abs("clients")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := copyModule(source, dir)
	if err != nil {
		t.Fatal(err)
	}
	return mod
}
