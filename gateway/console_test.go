package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// open asks for a path the way a client with these headers would.
func (g *gateway) open(t *testing.T, path string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// browser is what browsers accept when they open a page.
const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

func TestTheConsoleLeavesTheManagementAPIAlone(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory")
	if !strings.Contains(g.stdout.String(), "console    http://localhost:") {
		t.Errorf("start-up lines: %s", g.stdout)
	}
	if r, body := g.open(t, "/", "Accept", browser); r.StatusCode != http.StatusOK || !strings.Contains(body, "<!doctype html>") {
		t.Errorf("a browser: got %d %s", r.StatusCode, body)
	}
	for _, c := range []struct {
		path, accept string
	}{
		{"/", ""},
		{"/", "*/*"},
		{"/", "application/atom+xml"},
		{"/?api-version=2021-05", browser},
		{"/$Resources/Queues?api-version=2021-05", browser},
		{"/orders", browser},
		{"/orders/messages", browser},
	} {
		if r, body := g.open(t, c.path, "Accept", c.accept); strings.Contains(body, "<!doctype html>") {
			t.Errorf("GET %s, Accept %q: got %d %s", c.path, c.accept, r.StatusCode, body)
		}
	}
	if g.command(t, "", "queue", "create", "console"); !strings.Contains(g.command(t, "", "queue", "list"), "console") {
		t.Error("a queue may not be called console")
	}
}

func TestTheConsoleIsThereWhereItShouldBe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		want bool
	}{
		{"loopback", nil, true},
		{"off", []string{"--console=off"}, false},
		{"others may come", []string{"--listen=0.0.0.0:0", "--dev-key-anywhere"}, false},
		{"others may come and it is wanted", []string{"--listen=0.0.0.0:0", "--dev-key-anywhere", "--console=on"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := startGateway(t, append([]string{"--store=memory"}, c.args...)...)
			_, body := g.open(t, "/", "Accept", browser)
			if shown, said := strings.Contains(body, "<!doctype html>"), strings.Contains(g.stdout.String(), "console  "); shown != c.want || said != c.want {
				t.Errorf("page %v, start-up line %v, want %v", shown, said, c.want)
			}
		})
	}
}
