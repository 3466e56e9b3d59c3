// Package console is the web console: a page and its modules, embedded in the binary. The page gets
// its data over the WebSocket protocol, with the key or token of its user. The modules are served
// as they are in assets. Third-party modules are in assets/vendor, each with its licence; vendor.sh
// downloads the versions that package-lock.json pins.
package console

//go:generate ./vendor.sh

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Path is the prefix of the paths of the page's assets. Names of entities cannot contain a $.
const Path = "/$crosstown/console/"

//go:embed assets
var embedded embed.FS

type Console struct {
	page   []byte
	etag   string
	policy string            // Content-Security-Policy; its end is connect-src, to which serve appends sources
	base   string            // Path with a hash of all assets, so that browsers may cache them forever
	assets map[string]*asset // by path below base
}

func New() *Console {
	c := &Console{assets: map[string]*asset{}}
	var page string
	all := sha256.New()
	err := fs.WalkDir(embedded, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		_, _ = all.Write([]byte(name + "\x00"))
		_, _ = all.Write(content)
		if name == "assets/index.html" {
			page = string(content)
		} else if kind, ok := contentTypes[path.Ext(name)]; ok {
			c.assets[strings.TrimPrefix(name, "assets/")] = newAsset(kind, content)
		}
		return nil
	})
	if err != nil {
		panic("console: " + err.Error()) // the binary lacks its embedded files
	}
	hash := hex.EncodeToString(all.Sum(nil)[:8])
	c.base = Path + hash
	c.etag = `"` + hash + `"`
	page = strings.ReplaceAll(strings.ReplaceAll(page, "{preloads}", c.preloads()), "{base}", c.base)
	c.page = []byte(page)
	c.policy = policy(page)
	return c
}

// preloads links to every module, so that browsers request all modules at once.
func (c *Console) preloads() string {
	var lines []string
	for name := range c.assets {
		if ext := path.Ext(name); ext == ".js" || ext == ".mjs" {
			lines = append(lines, `<link rel="modulepreload" href="{base}/`+name+`">`)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// importMap matches the only inline script: browsers accept maps of module names only inline.
var importMap = regexp.MustCompile(`(?s)<script type="importmap">(.*?)</script>`)

// policy returns a Content-Security-Policy that allows only files of this gateway, data: images and
// the import map.
func policy(page string) string {
	var inline string
	if m := importMap.FindStringSubmatch(page); m != nil {
		hash := sha256.Sum256([]byte(m[1]))
		inline = " 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'"
	}
	return "default-src 'none'; script-src 'self'" + inline + "; style-src 'self'; img-src 'self' data:; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types 'none'; connect-src 'self'"
}

// ordinaryHost matches hosts that need no escapes in a Content-Security-Policy.
var ordinaryHost = regexp.MustCompile(`^[A-Za-z0-9.\-]+(:[0-9]+)?$|^\[[0-9A-Fa-f:.]+\](:[0-9]+)?$`)

func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	if r.URL.Path == "/" {
		c.servePage(w, r)
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, c.base+"/")
	a := c.assets[name]
	if !ok || a == nil {
		http.NotFound(w, r)
		return
	}
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	a.serve(w, r)
}

func (c *Console) servePage(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	policy := c.policy
	if ordinaryHost.MatchString(r.Host) { // some browsers do not apply 'self' to ws:
		policy += " ws://" + r.Host + " wss://" + r.Host
	}
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Content-Type", contentTypes[".html"])
	h.Set("Cache-Control", "no-cache")
	h.Set("Vary", "Accept")
	h.Set("ETag", c.etag)
	http.ServeContent(w, r, "", noTime, bytes.NewReader(c.page))
}

var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".mjs":  "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// noTime makes ServeContent omit the time of modification.
var noTime time.Time

type asset struct {
	contentType string
	content     []byte
	compressed  func() []byte // the gzip form, made for the first request that accepts it
}

func newAsset(contentType string, content []byte) *asset {
	return &asset{contentType, content, sync.OnceValue(func() []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(content) // a Buffer accepts everything
		_ = z.Close()
		return b.Bytes()
	})}
}

func (a *asset) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Set("Vary", "Accept-Encoding")
	content := a.content
	if r.Header.Get("Range") == "" && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		content = a.compressed()
	}
	http.ServeContent(w, r, "", noTime, bytes.NewReader(content))
}
