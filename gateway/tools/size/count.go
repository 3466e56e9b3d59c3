package main

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// part is what a Go file belongs to.
type part string

const (
	product   part = "product"
	support   part = "support"   // test support in folders of the product
	tool      part = "tool"      // programs for developers
	other     part = "other"     // examples, end-to-end tests, test data
	generated part = "generated" // by protoc
)

// supportFolders are the names of folders with test support.
var supportFolders = []string{
	"storetest", "redistest", "faultfs", "crosstowntest", "tracingtest", "rightstest", "sdkfaults", "sdkerrors", "wsstream", "plugintest", "freeport", "built", "variants", "redisserver", "eventually",
}

var otherFolders = []string{"examples", "testdata", "e2e"}

// toolFolders are paths. The load driver is a command of the gateway, but counts as a tool.
var toolFolders = []string{"gateway/tools", loadDriver}

const loadDriver = "gateway/internal/bench"

// partOf returns the part of a Go file that is not a test. file is a path in the repository.
func partOf(file string) (p part, folder string) {
	if strings.HasSuffix(file, ".pb.go") {
		return generated, path.Dir(file)
	}
	for _, folder := range toolFolders {
		if strings.HasPrefix(file, folder+"/") {
			return tool, folder
		}
	}
	names := strings.Split(path.Dir(file), "/")
	for i, name := range names {
		for p, folders := range map[part][]string{support: supportFolders, other: otherFolders} {
			if slices.Contains(folders, name) {
				return p, strings.Join(names[:i+1], "/")
			}
		}
	}
	return product, path.Dir(file)
}

// counts is the number of lines and files.
type counts struct {
	lines   map[part]int
	folders map[part]map[string]int // lines of folders of a part
	files   map[string]int          // Go files of a package, tests left out, by folder
	fileOf  map[string]int          // lines of a Go file, tests left out
	lua     int                     // lines of Lua
}

// all is the number of lines of Go.
func (c *counts) all() (n int) {
	for _, lines := range c.lines {
		n += lines
	}
	return n
}

// count counts the lines of a repository's files. Folders that Git or package managers keep are
// left out.
func count(root fs.FS) (*counts, error) {
	c := &counts{lines: map[part]int{}, folders: map[part]map[string]int{}, files: map[string]int{}, fileOf: map[string]int{}}
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file != "." && (strings.HasPrefix(name, ".") || name == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		isGo := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if !isGo && !strings.HasSuffix(name, ".lua") {
			return nil
		}
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		lines := bytes.Count(text, []byte("\n"))
		if !isGo {
			c.lua += lines
			return nil
		}
		p, folder := partOf(file)
		c.lines[p] += lines
		if c.folders[p] == nil {
			c.folders[p] = map[string]int{}
		}
		c.folders[p][folder] += lines
		c.files[path.Dir(file)]++
		c.fileOf[file] = lines
		return nil
	})
	return c, err
}
