package main

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/bridges/webhooks"
	"github.com/crosstown-mq/crosstown/core/auth"
	"github.com/crosstown-mq/crosstown/gateway/internal/admin/api"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/internal/eventually"
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
		"a setting that is none":   {text("other-key", "queue: []"), []string{"the old settings stay in force", "crosstown.yaml:3: queue: the setting does not exist"}},
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
		if line := p.line(t, "reload"); !strings.Contains(line, "retries, rate limits, circuit breakers, dead letters, schemas, schedules, hooks, pushes") {
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

// delivery is a request of a push, which waits for the test's answer.
type delivery struct {
	path, id, signature string
	sign                func(key string) string // how it is signed with a key
	answer              chan int
}

// endpoint is a server that hands its requests to the test.
func endpoint(t *testing.T) (address string, requests <-chan *delivery) {
	t.Helper()
	all := make(chan *delivery, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id := r.Header.Get("webhook-id")
		seconds, _ := strconv.ParseInt(r.Header.Get("webhook-timestamp"), 10, 64)
		d := &delivery{path: r.URL.Path, id: id, signature: r.Header.Get("webhook-signature"), answer: make(chan int)}
		d.sign = func(key string) string { return webhooks.Sign([]byte(key), id, time.Unix(seconds, 0), body) }
		all <- d
		select {
		case status := <-d.answer:
			w.WriteHeader(status)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, all
}

// Requests are in flight while the configuration changes.
func TestAHangUpReloadsPushes(t *testing.T) {
	t.Parallel()
	address, requests := endpoint(t)
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "crosstown.yaml"), filepath.Join(dir, "secret")
	setSecret := func(key string) { rewrite(t, secret, "whsec_"+base64.StdEncoding.EncodeToString([]byte(key))+"\n") }
	const oldKey, newKey = "the old key of the endpoint", "the new key of the endpoint"
	text := func(pushes ...string) string {
		var text strings.Builder
		text.WriteString("policies: [{name: " + config.DevPolicy + ", key: a-key-of-our-own, rights: Manage}]\ndrain-timeout: 10m\n" +
			"queues: [{name: stays, requires-session: true}, {name: changes}, {name: goes}, {name: comes}]\npushes:\n")
		for _, p := range pushes {
			name, more, _ := strings.Cut(p, " ")
			text.WriteString("  - {name: " + name + ", from: " + name + ", secret-file: " + secret + ", timeout: 10m, " + more + "}\n")
		}
		return text.String()
	}
	stays := "stays url: " + address + "/stays, first-delay: 1h, concurrency: 2"
	goes := "goes url: " + address + "/goes, concurrency: 1"
	setSecret(oldKey)
	rewrite(t, file, text(stays, "changes url: "+address+"/old, concurrency: 1", goes))
	p := startProgram(t, "--config", file)
	g := &gateway{
		data: t.TempDir(), address: p.address,
		connection: "Endpoint=sb://" + p.address + ";SharedAccessKeyName=" + config.DevPolicy + ";SharedAccessKey=a-key-of-our-own;UseDevelopmentEmulator=true",
	}
	send := func(queue, id string, more ...string) {
		t.Helper()
		g.command(t, "", append([]string{"send", queue, "hello", "--message-id", id}, more...)...)
	}
	// next takes the next request at a path; what comes for others waits.
	var early []*delivery
	next := func(path, id, key string) *delivery {
		t.Helper()
		for i := 0; ; i++ {
			if i == len(early) {
				select {
				case d := <-requests:
					early = append(early, d)
				case <-time.After(patience):
					t.Fatalf("no request at %s", path)
				}
			}
			if d := early[i]; d.path == path {
				early = slices.Delete(early, i, i+1)
				if d.id != id || d.signature != d.sign(key) {
					t.Errorf("%s: got %s, want %s signed with %s", path, d.id, id, key)
				}
				return d
			}
		}
	}
	states := func() map[string]api.Push {
		t.Helper()
		var all []api.Push
		status, text := (&asks{T: t, g: g, policy: config.DevPolicy, key: "a-key-of-our-own"}).do("GET", api.PushesPath, "")
		if err := json.Unmarshal([]byte(text), &all); status != 200 || err != nil {
			t.Fatalf("%d %v in %s", status, err, text)
		}
		byName := map[string]api.Push{}
		for _, s := range all {
			byName[s.Name] = s
		}
		return byName
	}
	delivered := func(name string, n int64) {
		t.Helper()
		eventually.True(t, fmt.Sprintf("%s has delivered %d", name, n), func() bool { return states()[name].Delivered == n })
	}
	reload := func(text, said string) string {
		t.Helper()
		rewrite(t, file, text)
		p.signal(t, syscall.SIGHUP)
		return p.line(t, said)
	}

	send("stays", "fails", "--session", "s1")
	next("/stays", "fails", oldKey).answer <- 500 // its session is paused for an hour
	send("stays", "slow", "--session", "s2")
	slow := next("/stays", "slow", oldKey)
	for _, queue := range []string{"changes", "goes"} {
		send(queue, "m1")
		send(queue, "m2")
	}
	atOld, going := next("/old", "m1", oldKey), next("/goes", "m1", oldKey)

	// A fault changes nothing, and the secret of an unchanged push is no other.
	if line := reload(text(stays, "changes url: nowhere", goes), "the old settings stay in force"); !strings.Contains(line, "pushes[1].url") {
		t.Errorf("the log says %s", line)
	}
	if all := states(); len(all) != 3 || all["stays"].UnderWay != 1 || all["changes"].UnderWay != 1 || all["goes"].UnderWay != 1 {
		t.Errorf("after a configuration with a fault: %+v", all)
	}

	reload(text(stays, "changes url: "+address+"/new, concurrency: 1", "comes url: "+address+"/comes"), `msg="reloaded`)
	send("comes", "m1")
	next("/comes", "m1", oldKey).answer <- 200
	delivered("comes", 1)
	if all := states(); len(all) != 3 || all["changes"].URL != address+"/new" {
		t.Errorf("reloaded: %+v", all)
	}
	// What is in flight ends as it began; what waits goes the new way, or stays.
	going.answer <- 200
	p.until(t, `msg="push: ended" push=goes`)
	if got := g.command(t, "", "receive", "goes", "--json"); strings.Contains(got, `"m1"`) || !strings.Contains(got, `"m2"`) {
		t.Errorf("left of a push that is gone: %s", got)
	}
	atOld.answer <- 200
	next("/new", "m2", oldKey).answer <- 200
	delivered("changes", 2)
	slow.answer <- 200
	delivered("stays", 1)
	if s := states()["stays"]; s.Failed != 1 || s.UnderWay != 0 {
		t.Errorf("the push that stays: %+v", s)
	}

	// The secret's file changes, the configuration does not.
	setSecret(newKey)
	p.signal(t, syscall.SIGHUP)
	p.until(t, `msg="reloaded`)
	send("changes", "m3")
	failing := next("/new", "m3", newKey)
	send("stays", "m4", "--session", "s2") // s1 is still paused
	next("/stays", "m4", newKey).answer <- 200
	delivered("stays", 2)

	// A delivery that fails after its push was removed is given back.
	reload(text(stays), `msg="reloaded`)
	failing.answer <- 500
	p.until(t, `msg="push: ended" push=changes`)
	if got := g.command(t, "", "peek", "changes", "--json"); !strings.Contains(got, `"m3"`) {
		t.Errorf("left of a push that is gone: %s", got)
	}
	if len(early) > 0 {
		t.Errorf("a request that was not expected: %+v", early[0])
	}
	p.signal(t, syscall.SIGTERM)
	if code := p.exitCode(); code != exitOK {
		t.Errorf("got exit code %d, want %d", code, exitOK)
	}
}
