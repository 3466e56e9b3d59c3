package client

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
)

func get(t *testing.T, method, path, tag, encoding string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.Header.Set("If-None-Match", tag)
	r.Header.Set("Accept-Encoding", encoding)
	w := httptest.NewRecorder()
	New().ServeHTTP(w, r)
	return w.Result()
}

func TestFilesAreServedToPagesOfEveryOrigin(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]struct{ file, contentType string }{
		ModulePath: {"crosstown.js", "text/javascript; charset=utf-8"},
		TypesPath:  {"crosstown.d.ts", "application/typescript; charset=utf-8"},
	} {
		res := get(t, http.MethodGet, path, "", "")
		var got bytes.Buffer
		if _, err := got.ReadFrom(res.Body); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(want.file)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusOK || !bytes.Equal(got.Bytes(), content) {
			t.Errorf("GET %s: got %s and %d bytes, want the file of %d bytes", path, res.Status, got.Len(), len(content))
		}
		for name, value := range map[string]string{
			"Content-Type": want.contentType, "Cache-Control": "no-cache", "Access-Control-Allow-Origin": "*", "X-Content-Type-Options": "nosniff",
		} {
			if res.Header.Get(name) != value {
				t.Errorf("GET %s: got %s %q, want %q", path, name, res.Header.Get(name), value)
			}
		}
		if again := get(t, http.MethodGet, path, res.Header.Get("ETag"), ""); again.StatusCode != http.StatusNotModified {
			t.Errorf("GET %s with its ETag: got %s, want 304", path, again.Status)
		}
	}
}

func TestFilesAreCompressedForWhoeverReadsThat(t *testing.T) {
	t.Parallel()
	res := get(t, http.MethodGet, ModulePath, "", "br, gzip")
	z, err := gzip.NewReader(res.Body)
	if err != nil || res.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("got %q, %v", res.Header, err)
	}
	got, err := io.ReadAll(z)
	want, wantErr := files.ReadFile("crosstown.js")
	if err != nil || wantErr != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, %v, want %d, %v", len(got), err, len(want), wantErr)
	}
	tag := res.Header.Get("ETag")
	if again := get(t, http.MethodGet, ModulePath, tag, "gzip"); again.StatusCode != http.StatusNotModified {
		t.Errorf("with its ETag: got %s, want 304", again.Status)
	}
	if plain := get(t, http.MethodGet, ModulePath, tag, ""); plain.StatusCode != http.StatusOK {
		t.Errorf("with its ETag, and without gzip: got %s, want 200", plain.Status)
	}
}

func TestNothingElseIsServed(t *testing.T) {
	t.Parallel()
	for request, want := range map[[2]string]int{
		{http.MethodGet, "/client/"}:                http.StatusNotFound,
		{http.MethodGet, "/client/client.go"}:       http.StatusNotFound,
		{http.MethodGet, "/client/../crosstown.js"}: http.StatusNotFound,
		{http.MethodPost, ModulePath}:               http.StatusMethodNotAllowed,
		{http.MethodHead, ModulePath}:               http.StatusOK,
	} {
		if got := get(t, request[0], request[1], "", "").StatusCode; got != want {
			t.Errorf("%s: got %d, want %d", request, got, want)
		}
	}
}
