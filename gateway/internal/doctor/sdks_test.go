package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNeedsAreThoseOfThePages looks for the SDK, and for each port, version and setting of what it needs,
// in the page that has more.
func TestNeedsAreThoseOfThePages(t *testing.T) {
	t.Parallel()
	fact := regexp.MustCompile(`\b\d+(?:\.\d+)*\b|\b[A-Za-z_]+=|\b[A-Z]+_[A-Z_]+\b`)
	for _, n := range Needs() {
		text, err := os.ReadFile(filepath.Join("../../../docs", n.Page))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range append(fact.FindAllString(n.Text, -1), n.SDK) {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: docs/%s does not have %q of %q", n.SDK, n.Page, want, n.Text)
			}
		}
	}
}
