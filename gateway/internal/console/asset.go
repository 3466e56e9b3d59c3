package console

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"sync"
	"time"
)

// contentTypes are the kinds of files that are served.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".mjs":  "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// noTime makes ServeContent say nothing of when a file was changed.
var noTime time.Time

// asset is a file of the page.
type asset struct {
	contentType string
	content     []byte
	compressed  func() []byte // gzip, made when it is first asked for
}

func newAsset(contentType string, content []byte) *asset {
	return &asset{contentType, content, sync.OnceValue(func() []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(content) // a Buffer takes everything
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
