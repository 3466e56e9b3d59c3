package console_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/faults"
	"github.com/crosstown-mq/crosstown/gateway/internal/console"
)

// ask makes a request to the console; header is name, value, …
func ask(method, target string, header ...string) *http.Response {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	console.New().ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestThePageMayLoadNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	r := ask(http.MethodGet, "http://bus.example:5672/")
	policy := r.Header.Get("Content-Security-Policy")
	for _, directive := range []string{
		"default-src 'none';", "script-src 'self' 'sha256-", "style-src 'self';", "base-uri 'none';", "form-action 'none';",
		"frame-ancestors 'none';", "require-trusted-types-for 'script';", "trusted-types 'none';", "connect-src 'self' ws://bus.example:5672 wss://bus.example:5672",
	} {
		if !strings.Contains(policy, directive) {
			t.Errorf("policy: %q is missing in %s", directive, policy)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("policy: %s", policy)
	}
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
		"Cache-Control": "no-cache", "Content-Type": "text/html; charset=utf-8",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if page := text(t, r); regexp.MustCompile(`(src|href)="[a-z]+:`).MatchString(page) || strings.Contains(page, "{base}") {
		t.Errorf("page: %s", page)
	}
}

func TestInvalidHostIsLeftOutOfThePolicy(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Host = "x; script-src *"
	w := httptest.NewRecorder()
	console.New().ServeHTTP(w, r)
	if policy := w.Header().Get("Content-Security-Policy"); !strings.HasSuffix(policy, "connect-src 'self'") {
		t.Errorf("got %s", policy)
	}
}

func TestAPageThatHasNotChangedIsNotSentAgain(t *testing.T) {
	t.Parallel()
	tag := ask(http.MethodGet, "/").Header.Get("ETag")
	if r := ask(http.MethodGet, "/", "If-None-Match", tag); tag == "" || r.StatusCode != http.StatusNotModified {
		t.Errorf("tag %q: got %d", tag, r.StatusCode)
	}
}

var imported = regexp.MustCompile(`(?m)^(?:import|export)\b[^'"]*?["'](\.[^"']+)["']`)

func TestEverythingThatThePageNamesIsThere(t *testing.T) {
	t.Parallel()
	page := text(t, ask(http.MethodGet, "/"))
	var todo []string
	for _, m := range regexp.MustCompile(`"(`+regexp.QuoteMeta(console.Path)+`[^"]+)"`).FindAllStringSubmatch(page, -1) {
		todo = append(todo, m[1])
	}
	if len(todo) < 8 {
		t.Fatalf("the page names only %q", todo)
	}
	seen := map[string]bool{}
	for len(todo) > 0 {
		address := todo[0]
		todo = todo[1:]
		if seen[address] {
			continue
		}
		seen[address] = true
		r := ask(http.MethodGet, address)
		if r.StatusCode != http.StatusOK || !strings.Contains(r.Header.Get("Cache-Control"), "immutable") || r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: got %d with %v", address, r.StatusCode, r.Header)
		}
		kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
		if want := map[string]string{".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}[filepath.Ext(address)]; kind != want {
			t.Errorf("%s: got type %q, want %q", address, kind, want)
		}
		for _, m := range imported.FindAllStringSubmatch(text(t, r), -1) {
			todo = append(todo, filepath.Join(filepath.Dir(address), m[1]))
		}
	}
	modules, err := filepath.Glob("assets/*.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		found := false
		for address := range seen {
			found = found || filepath.Base(address) == filepath.Base(m)
		}
		if !found {
			t.Errorf("%s: nothing imports it", m)
		}
	}
}

func TestAssetsTravelCompressed(t *testing.T) {
	t.Parallel()
	address := regexp.MustCompile(`src="([^"]+app\.js)"`).FindStringSubmatch(text(t, ask(http.MethodGet, "/")))[1]
	plain, zipped := ask(http.MethodGet, address), ask(http.MethodGet, address, "Accept-Encoding", "br, gzip")
	if plain.Header.Get("Content-Encoding") != "" || zipped.Header.Get("Content-Encoding") != "gzip" || zipped.Header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("plain %v\nzipped %v", plain.Header, zipped.Header)
	}
}

func TestUnknownPathsAreNotFound(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"/x", console.Path, console.Path + "app.js", console.Path + "0000/app.js", console.Path + "../"} {
		if r := ask(http.MethodGet, address); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: got %d", address, r.StatusCode)
		}
	}
	if r := ask(http.MethodPost, "/"); r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: got %d, %v", r.StatusCode, r.Header)
	}
}

func TestVendoredFilesAreThePublishedOnes(t *testing.T) {
	t.Parallel()
	sums, err := os.Open("SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sums.Close() }()
	known := map[string]bool{}
	for lines := bufio.NewScanner(sums); lines.Scan(); {
		want, name, _ := strings.Cut(lines.Text(), "  ")
		known[name] = true
		content, err := os.ReadFile(filepath.Join("assets/vendor", name))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s was changed: run vendor.sh", name)
		}
	}
	files, err := os.ReadDir("assets/vendor")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !known[f.Name()] {
			t.Errorf("%s: SHA256SUMS does not know it", f.Name())
		}
	}
}

// The form of settings shows them as core has them.
func TestSettingsAreThoseOfCore(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("assets/settings.js")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]core.Kinds{"all": core.AllKinds, "stored": core.Queues | core.Subscriptions, "roots": core.Queues | core.Topics, `["subscription"]`: core.Subscriptions}
	rows := regexp.MustCompile(`\{ name: "(\w+)", .*type: ("\w+"|statuses), kinds: (\w+|\["subscription"\])(, fixed: true)?`).FindAllStringSubmatch(string(source), -1)
	if len(rows) < 10 {
		t.Fatalf("only %d settings are found", len(rows))
	}
	for _, row := range rows {
		s := core.SettingNamed(row[1])
		if s == nil {
			t.Errorf("%s is not a setting", row[1])
			continue
		}
		form := map[string]string{"*time.Duration": `"duration"`, "*int": `"number"`, "*int64": `"number"`, "*bool": `"boolean"`, "*string": `"text"`, "*core.Status": "statuses"}[fmt.Sprintf("%T", s.Of(&core.Settings{}))]
		if kinds[row[3]] != s.Kinds || (row[4] != "") != s.Fixed || row[2] != form {
			t.Errorf("%s: got %s of %s, fixed %v; core has %s of %b, %v", s.Name, row[2], row[3], row[4] != "", form, s.Kinds, s.Fixed)
		}
	}
	for _, s := range core.Statuses {
		if !strings.Contains(string(source), `"`+string(s)+`"`) {
			t.Errorf("the status %s is missing", s)
		}
	}
}

// The console names every operation and effect of fault rules.
func TestThePageKnowsAllFaults(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("assets/faults.js")
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, o := range faults.Operations() {
		words = append(words, string(o))
	}
	for _, e := range faults.Effects() {
		words = append(words, string(e))
	}
	for _, word := range words {
		if !strings.Contains(string(page), `"`+word+`"`) {
			t.Errorf("faults.js does not name %s", word)
		}
	}
}
