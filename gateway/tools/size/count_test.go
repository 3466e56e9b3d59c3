package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func TestPartOfAFile(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]part{
		"core/store.go":                                  product,
		"gateway/main.go":                                product,
		"gateway/internal/doctor/peers.go":               product, // a file, not a folder
		"core/storetest/linear/model.go":                 support,
		"core/store/file/internal/fsys/faultfs/fault.go": support,
		"internal/freeport/freeport.go":                  support,
		"gateway/internal/bench/run.go":                  tool,
		"gateway/tools/size/main.go":                     tool,
		"gateway/tools/interop/dapr/main.go":             tool,
		"gateway/internal/benchmarks/run.go":             product,
		"gateway/e2e/testdata/courier/main.go":           other,
		"examples/webhooks/main.go":                      other,
		"plugins/proto/v1/plugin.pb.go":                  generated,
	} {
		if got, _ := partOf(file); got != want {
			t.Errorf("%s: got %s, want %s", file, got, want)
		}
	}
}

func TestCountLeavesOutTestsAndPackages(t *testing.T) {
	t.Parallel()
	c, err := count(fstest.MapFS{
		"core/a.go":                  {Data: []byte("package core\n\nvar A int\n")},
		"core/a_test.go":             {Data: []byte("package core\n")},
		"core/redistest/b.go":        {Data: []byte("package redistest\n")},
		"core/store/append.lua":      {Data: []byte("return 1\nend\n")},
		"console/node_modules/c.go":  {Data: []byte("package c\n")},
		".git/d.go":                  {Data: []byte("package d\n")},
		"gateway/tools/size/main.go": {Data: []byte("package main\n\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.lines[product] != 3 || c.lines[support] != 1 || c.lines[tool] != 2 || c.all() != 6 || c.lua != 2 {
		t.Errorf("got %+v", c)
	}
	if c.files["core"] != 1 || c.fileOf["core/a.go"] != 3 || c.folders[support]["core/redistest"] != 1 {
		t.Errorf("got %+v", c)
	}
}

func TestProductBeyondItsLimitFailsTheCheck(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, ".ci"), 0o700); err != nil {
		t.Fatal(err)
	}
	limit := filepath.Join(root, ".ci", "product-lines")
	if err := os.WriteFile(limit, []byte("# A reason.\n1200 # lines\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkLimit(root, 1200); err != nil {
		t.Error(err)
	}
	err := checkLimit(root, 1234)
	if err == nil || !strings.Contains(err.Error(), "1,234 lines of Go, 34 more than .ci/product-lines allows (1,200)") {
		t.Errorf("got %v", err)
	}
	for _, text := range []string{"", "many", "1 2", "-5"} {
		if err := os.WriteFile(limit, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkLimit(root, 1); err == nil || !strings.Contains(err.Error(), "want one number of lines") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 107853: "107,853", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
