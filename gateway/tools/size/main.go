// Size prints the size of each part of the code, and measures of its complexity: types that
// override a method of the core's interfaces, large packages, and how much of them is in cycles of
// files.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/crosstown-mq/crosstown/gateway/tools/internal/repository"
)

const usage = `Print the size of the code, per part: lines of Go without tests, places that override a
method of the core's interfaces, and for each large package the references between its files,
with the share of those in a cycle of files.

Usage: go -C gateway/tools run ./size [flags]        (make size, in the repository's root)

Flags:
`

// limitFile keeps the largest number of lines that the product may have.
const limitFile = ".ci/product-lines"

func main() {
	check := flag.Bool("check", false, "print nothing, and fail if the product has more lines than "+limitFile+" allows")
	root := flag.String("root", "", "the repository's root `folder`; default the one above the working directory")
	flag.Usage = func() {
		_, _ = fmt.Fprint(flag.CommandLine.Output(), usage) // as PrintDefaults does
		flag.PrintDefaults()
	}
	flag.Parse()
	err := run(os.Stdout, *root, *check)
	if flag.NArg() > 0 {
		err = fmt.Errorf("%q is not a flag: see -help", flag.Arg(0))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "size: %v\n", err)
		os.Exit(1)
	}
}

func run(w io.Writer, root string, check bool) (err error) {
	if root == "" {
		if root, err = repository.Root(); err != nil {
			return err
		}
	}
	counted, err := count(os.DirFS(root))
	if err != nil {
		return err
	}
	if check {
		return checkLimit(root, counted.lines[product])
	}
	module, err := load(root)
	if err != nil {
		return err
	}
	return write(w, counted, module)
}

// checkLimit compares the product's lines with those that the repository allows.
func checkLimit(root string, lines int) error {
	limit, err := readLimit(filepath.Join(root, filepath.FromSlash(limitFile)))
	if err != nil {
		return err
	}
	if lines > limit {
		return fmt.Errorf("the product has %s lines of Go, %s more than %s allows (%s): remove some, or raise the number there and give the reason in the commit's message",
			thousands(lines), thousands(lines-limit), limitFile, thousands(limit))
	}
	return nil
}

// readLimit reads the number of a file that has no other text but comments.
func readLimit(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	var words []string
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		words = append(words, strings.Fields(line)...)
	}
	if len(words) == 1 {
		if limit, err := strconv.Atoi(words[0]); err == nil && limit > 0 {
			return limit, nil
		}
	}
	return 0, fmt.Errorf("%s: got %q, want one number of lines", file, words)
}

// thousands writes a number with commas.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
