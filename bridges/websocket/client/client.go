// Package client serves the client for browsers and Node: one ES module and its types. A page can
// import the module from the gateway.
package client

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Paths of the files.
const (
	ModulePath = "/client/crosstown.js"
	TypesPath  = "/client/crosstown.d.ts"
)

//go:embed crosstown.js crosstown.d.ts
var files embed.FS

type file struct {
	content     []byte
	compressed  func() []byte // the gzip form, made for the first request that accepts it
	contentType string
	tag         string // entity tag, without quotes
}

type handler map[string]file

// New returns a handler for ModulePath and TypesPath. Pages of every origin may import the module,
// which contains no secret. Bridge and Tunnel decide which pages may connect.
func New() http.Handler {
	return handler{
		ModulePath: open("crosstown.js", "text/javascript; charset=utf-8"),
		TypesPath:  open("crosstown.d.ts", "application/typescript; charset=utf-8"),
	}
}

func open(name, contentType string) file {
	content, err := files.ReadFile(name)
	if err != nil {
		panic(err) // go:embed guarantees that the file exists
	}
	compressed := sync.OnceValue(func() []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(content) // a Buffer accepts everything
		_ = z.Close()
		return b.Bytes()
	})
	return file{content, compressed, contentType, fmt.Sprintf("%x", sha256.Sum256(content))}
}

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := h[r.URL.Path]
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "This is a file: use GET.", http.StatusMethodNotAllowed)
		return
	}
	set := w.Header().Set
	set("Content-Type", f.contentType)
	set("Vary", "Accept-Encoding")
	set("Cache-Control", "no-cache") // browsers must ask each time, because the client must have the gateway's version
	set("Access-Control-Allow-Origin", "*")
	set("Cross-Origin-Resource-Policy", "cross-origin")
	set("X-Content-Type-Options", "nosniff")
	if r.URL.Path == ModulePath {
		set("X-TypeScript-Types", TypesPath)
	}
	content, tag := f.content, f.tag
	if r.Header.Get("Range") == "" && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		content, tag = f.compressed(), f.tag+"-gzip"
		set("Content-Encoding", "gzip")
	}
	set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}
