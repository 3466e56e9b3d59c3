package main

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

// asks is the status that a management request with a key is answered.
func (p *program) asks(t *testing.T, key, queue string) int {
	t.Helper()
	url := "http://" + p.address + "/" + queue
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", auth.SignSAS(url, config.DevPolicy, key, time.Now().Add(time.Hour)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// shows is the first name of the certificate that the program shows.
func (p *program) shows(t *testing.T) string {
	t.Helper()
	conn, err := tls.Dial("tcp", p.address, &tls.Config{InsecureSkipVerify: true}) // its name is what we want to know
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0].DNSNames[0]
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAHangUpReloadsTheConfiguration(t *testing.T) {
	t.Parallel()
	oldCert, oldKey := selfSigned(t, "old.example")
	newCert, newKey := selfSigned(t, "new.example")
	dir := t.TempDir()
	file, cert, key := filepath.Join(dir, "crosstown.yaml"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	install := func(from, to string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		rewrite(t, to, string(text))
	}
	install(oldCert, cert)
	install(oldKey, key)
	text := func(secret string, more ...string) string {
		return "policies: [{name: " + config.DevPolicy + ", key: " + secret + ", rights: Manage}]\n" +
			"tls: {cert: " + cert + ", key: " + key + "}\n" + strings.Join(more, "\n") + "\n"
	}
	rewrite(t, file, text("old-key", "queues: [{name: orders}]"))
	p := startProgram(t, "--config", file)
	holds := func(what, good, bad, shown string) {
		t.Helper()
		if got := p.asks(t, good, "orders"); got != http.StatusOK {
			t.Errorf("%s: %s is answered %d", what, good, got)
		}
		if got := p.asks(t, bad, "orders"); got != http.StatusUnauthorized {
			t.Errorf("%s: %s is answered %d", what, bad, got)
		}
		if got := p.shows(t); got != shown {
			t.Errorf("%s: the certificate is of %s, want %s", what, got, shown)
		}
	}
	reload := func(said ...string) {
		t.Helper()
		p.signal(t, syscall.SIGHUP)
		for _, text := range said {
			p.until(t, text)
		}
	}
	holds("at the start", "old-key", "new-key", "old.example")

	install(newCert, cert)
	install(newKey, key)
	rewrite(t, file, text("new-key", "queues: [{name: orders}, {name: invoices}]", "log: {level: debug}", "amqp: {max-links: 17}", "partitions: 3"))
	reload(`settings="amqp.max-links, partitions"`, "msg=\"reloaded: log level")
	holds("reloaded", "new-key", "old-key", "new.example")
	if got := p.asks(t, "new-key", "invoices"); got != http.StatusOK {
		t.Errorf("the new queue: got %d", got)
	}

	for what, c := range map[string]struct {
		text string
		said []string
	}{
		"a list that is none":      {"policies: 5\n", []string{"the old settings stay in force", "crosstown.yaml:1: policies"}},
		"a setting that is none":   {text("other-key", "queue: []"), []string{"the old settings stay in force", "crosstown.yaml:3: queue: there is no such setting"}},
		"no YAML":                  {"a: [", []string{"the old settings stay in force", "crosstown.yaml"}},
		"a certificate not there":  {strings.ReplaceAll(text("other-key"), "cert.pem", "none.pem"), []string{"the old settings stay in force", "none.pem"}},
		"the development key anew": {"tls: {cert: " + cert + ", key: " + key + "}\n", []string{"the old settings stay in force", "public development key"}},
	} {
		rewrite(t, file, c.text)
		p.signal(t, syscall.SIGHUP)
		line := p.line(t, c.said[0])
		if !strings.Contains(line, c.said[1]) {
			t.Errorf("%s: the log says %s", what, line)
		}
		holds(what, "new-key", "other-key", "new.example")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	reload("the old settings stay in force")
	for range 20 {
		p.signal(t, syscall.SIGHUP)
	}
	holds("after many", "new-key", "old-key", "new.example")
	p.signal(t, syscall.SIGTERM)
	p.signal(t, syscall.SIGHUP)
	if code := p.exitCode(); code != exitOK {
		t.Errorf("got exit code %d, want %d", code, exitOK)
	}
}

// The secret of a sender changes while the gateway runs: for a while both are good.
func TestAHangUpReloadsHooksAndTheirSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "crosstown.yaml"), filepath.Join(dir, "secret")
	text := "policies: [{name: " + config.DevPolicy + ", key: a-key-of-our-own, rights: Manage}]\nqueues: [{name: events}]\n"
	rewrite(t, file, text)
	p := startProgram(t, "--config", file)
	posts := func(secret string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.address+"/$crosstown/hooks/shop?secret="+secret, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	holds := func(what string, old, changed int) {
		t.Helper()
		if a, b := posts("the-old-secret-of-it"), posts("the-new-secret-of-it"); a != old || b != changed {
			t.Errorf("%s: the old secret is answered %d, the new one %d, want %d and %d", what, a, b, old, changed)
		}
	}
	reload := func() {
		t.Helper()
		p.signal(t, syscall.SIGHUP)
		if line := p.line(t, "reload"); !strings.Contains(line, "retries, hooks") {
			t.Errorf("the log says %s", line)
		}
	}
	holds("without hooks", 404, 404)
	rewrite(t, secret, "the-old-secret-of-it\n")
	rewrite(t, file, text+"hooks: [{name: shop, entity: events, verify: url, secret-file: "+secret+"}]\n")
	reload()
	holds("with a hook", 202, 401)
	rewrite(t, secret, "the-old-secret-of-it\nthe-new-secret-of-it\n")
	reload()
	holds("with both secrets", 202, 202)
	rewrite(t, secret, "the-new-secret-of-it\n")
	reload()
	holds("with the new one", 401, 202)
	rewrite(t, file, text)
	reload()
	holds("without the hook", 404, 404)
	p.signal(t, syscall.SIGTERM)
	if code := p.exitCode(); code != exitOK {
		t.Errorf("got exit code %d, want %d", code, exitOK)
	}
}

// Without a configuration there is nothing to read, and nothing to end for.
func TestAHangUpDoesNotEndAGatewayWithoutAFile(t *testing.T) {
	t.Parallel()
	p := startProgram(t)
	p.signal(t, syscall.SIGHUP)
	p.until(t, "reloaded")
	p.signal(t, syscall.SIGTERM)
	if code := p.exitCode(); code != exitOK {
		t.Errorf("got exit code %d, want %d", code, exitOK)
	}
}
