package main

import (
	"net/http"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/internal/rightstest"
	"github.com/crosstown-mq/crosstown/internal/variants"
)

// Credentials are tried for operations over every transport, and each answer compared with a model: every
// combination where all places of stories are visited, else each eleventh. The end-to-end tests try a sample
// of a process.
func TestAnswersAreThoseOfTheModelOfRights(t *testing.T) {
	t.Parallel()
	args, issuer := rightstest.Args(t)
	g := startGateway(t, append(args, "--store=memory")...)
	one := 11
	if variants.All() {
		one = 1
	}
	tried := rightstest.Run(t, rightstest.New(t, g.address, g.stdout.String(), issuer), one)
	t.Logf("%d combinations of credentials, operations and transports", tried)
	if tried < 4000/one {
		t.Errorf("only %d combinations were tried", tried)
	}
}

// get sends a GET with headers, as names and values, and returns the answer without its body.
func get(t *testing.T, url string, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp
}

func TestNoAnswerLetsABrowserGuessItsType(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--console=on", "--admin-listen=127.0.0.1:0", "--dev-identity", "--dev-identity-listen=127.0.0.1:0")
	base, admin := "http://"+g.address, "http://"+adminLine.FindStringSubmatch(g.stdout.String())[1]
	identity := identityLine.FindStringSubmatch(g.stdout.String())
	const upgrade = "websocket"
	for _, c := range []struct {
		url    string
		header []string
		status int
	}{
		{base + "/", []string{"Accept", browser}, 200},
		{base + "/", nil, 200},
		{base + "/health", nil, 200},
		{base + "/client/crosstown.js", nil, 200},
		{base + "/client/none.js", nil, 401},
		{base + "/orders", nil, 401},
		{base + "/orders/messages/head", nil, 401},
		{base + "/orders/messages/stream", nil, 401},
		{base + "/$crosstown/metrics", nil, 401},
		{base + "/$crosstown/namespaces", nil, 401},
		{base + "/$crosstown/plugins", nil, 401},
		{base + "/$crosstown/explain/orders", nil, 401},
		{base + "/$crosstown/ws", nil, 426},
		{base + "/$crosstown/ws", []string{"Connection", "Upgrade", "Upgrade", upgrade}, 400},
		{base + "/$crosstown/ws", []string{"Connection", "Upgrade", "Upgrade", upgrade, "Origin", "https://evil.example"}, 403},
		{base + "/$servicebus/websocket", nil, 426},
		{base + "/health", []string{"Host", "evil.example"}, 421},
		{admin + "/metrics", nil, 200},
		{admin + "/debug/pprof/", nil, 200},
		{admin + "/none", nil, 404},
		{admin + "/metrics", []string{"Host", "evil.example"}, 421},
		{admin + "/metrics", []string{"Origin", "https://evil.example"}, 403},
		{identity[1], nil, 401},
		{identity[1], []string{"Origin", "https://evil.example"}, 403},
		{identity[1] + "?resource=r", []string{"X-IDENTITY-HEADER", identity[2]}, 200},
		{identity[1] + "/none", nil, 404},
	} {
		if resp := get(t, c.url, c.header...); resp.StatusCode != c.status || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %v: got %d and %q, want %d and nosniff", c.url, c.header, resp.StatusCode, resp.Header.Get("X-Content-Type-Options"), c.status)
		}
	}
}

func TestTheAdminListenerAnswersNoPageOfAnotherSite(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--admin-listen=127.0.0.1:0")
	admin := adminLine.FindStringSubmatch(g.stdout.String())[1]
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/goroutine"} {
		for _, c := range []struct {
			name, value string
			status      int
		}{
			{"Sec-Fetch-Site", "cross-site", http.StatusForbidden},
			{"Sec-Fetch-Site", "same-site", http.StatusForbidden}, // another port of this machine
			{"Origin", "https://evil.example", http.StatusForbidden},
			{"Origin", "null", http.StatusForbidden},
			{"Sec-Fetch-Site", "none", http.StatusOK}, // typed into the address bar
			{"Sec-Fetch-Site", "same-origin", http.StatusOK},
			{"Origin", "http://" + admin, http.StatusOK},
		} {
			if resp := get(t, "http://"+admin+path, c.name, c.value); resp.StatusCode != c.status {
				t.Errorf("%s with %s %s: got %d, want %d", path, c.name, c.value, resp.StatusCode, c.status)
			}
		}
	}
}
