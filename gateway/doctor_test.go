package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/core/redisstore/redistest"
	"github.com/crosstown-mq/crosstown/gateway/internal/doctor"
)

// examine runs crosstown doctor and returns its findings, each as "status found", by the check.
func examine(t *testing.T, environ []string, args ...string) (code int, by map[string]string, all string) {
	t.Helper()
	code, stdout, stderr := invoke(t, environ, append([]string{"doctor", "--json"}, args...)...)
	var report doctor.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("%v: %v: %s%s", args, err, stdout, stderr)
	}
	by = map[string]string{}
	for _, f := range report.Findings {
		by[f.Check] += string(f.Status) + " " + f.Found + " → " + f.Remedy + "\n"
	}
	if len(report.SDKs) < 5 {
		t.Errorf("SDKs: %v", report.SDKs)
	}
	return code, by, stdout
}

func expect(t *testing.T, by map[string]string, check, status string, parts ...string) {
	t.Helper()
	for _, part := range append(parts, status+" ") {
		if !strings.Contains(by[check], part) {
			t.Errorf("%s: got %q, want %s and %q", check, by[check], status, part)
		}
	}
}

func TestDoctorWithoutAGateway(t *testing.T) {
	t.Parallel()
	data, port := t.TempDir(), freePort(t)
	code, by, _ := examine(t, nil, "--data", data, "--listen", "127.0.0.1:"+port, "--connection-string", "Endpoint=sb://localhost:1;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true")
	expect(t, by, "configuration", "ok")
	expect(t, by, "port 127.0.0.1:"+port, "ok", "free")
	expect(t, by, "store", "ok", filepath.Join(data, "messages"), "the first start makes it")
	expect(t, by, "disk", "ok")
	expect(t, by, "durability", "ok", "100 ms")
	expect(t, by, "gateway", "warn", "none answers at http://localhost:1", "start it: crosstown")
	expect(t, by, "development CA", "ok", "crosstown ca")
	if code != exitOK {
		t.Errorf("exit code %d: %v", code, by)
	}
	if left, _ := os.ReadDir(data); len(left) > 0 {
		t.Errorf("it has left %v", left)
	}

	// What is wrong is a failure with its remedy, and the exit code says so.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	go func() { // a broker of AMQP 0-9-1 answers so to other protocols
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "AMQP\x00\x00\x09\x01")
			_ = conn.Close()
		}
	}()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	occupied := filepath.Join(data, "file")
	if err := os.WriteFile(occupied, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rabbit, page := ln.Addr().String(), web.Listener.Addr().String()
	code, by, _ = examine(t, nil, "--data", occupied, "--listen", rabbit, "--listen", page, "--sync=never", "--context=none")
	expect(t, by, "port "+rabbit, "fail", "RabbitMQ", "--listen")
	expect(t, by, "port "+page, "fail", "another program that speaks HTTP")
	expect(t, by, "store", "fail", "a file has its name")
	expect(t, by, "gateway", "fail", `there is no context "none"`)
	if code != exitFailure {
		t.Errorf("exit code %d: %v", code, by)
	}
	code, by, _ = examine(t, []string{"CROSSTOWN_STORE=disk"}, "--data", data, "--log-level=loud")
	expect(t, by, "configuration", "fail", "CROSSTOWN_STORE: ", "--log-level: ")
	if code != exitFailure {
		t.Errorf("exit code %d: %v", code, by)
	}
}

func TestDoctorWithAGateway(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	ca := filepath.Join(g.data, "ca.pem")
	other := filepath.Join(t.TempDir(), "other.pem")
	if err := os.WriteFile(other, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.command(t, "", "context", "save", "here", "--connection-string", g.connection)
	saved := filepath.Join(g.data, "contexts.json")
	environ := []string{"CROSSTOWN_CONTEXTS=" + saved, "SSL_CERT_FILE=" + ca, "NODE_EXTRA_CA_CERTS=" + other, "JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=" + other}
	for _, connection := range []string{g.connection, g.secure} {
		code, by, _ := examine(t, append(environ, "CROSSTOWN_CONNECTION_STRING="+connection), "--data", g.data, "--listen", g.address)
		expect(t, by, "port "+g.address, "ok", "a Crosstown gateway answers")
		expect(t, by, "store", "ok", "in use by process")
		expect(t, by, "contexts", "ok", "1 in "+saved)
		expect(t, by, "gateway", "ok", "is healthy, version "+versionText(), "(CROSSTOWN_CONNECTION_STRING)")
		expect(t, by, "gateway's store", "ok", "file, messages survive a restart")
		expect(t, by, "clock of the gateway", "ok")
		expect(t, by, "development CA", "ok", "Crosstown development CA", "good until")
		expect(t, by, "trust of Go, .NET and Rust", "ok", ca)
		expect(t, by, "trust of JavaScript", "warn", "does not have the development CA", "cat "+other+" "+ca+" > with-crosstown.pem; export NODE_EXTRA_CA_CERTS=$PWD/with-crosstown.pem")
		expect(t, by, "trust of Python", "warn", "REQUESTS_CA_BUNDLE is not set", "connection_verify="+ca)
		expect(t, by, "trust of Java", "ok", other)
		if code != exitOK {
			t.Errorf("exit code %d: %v", code, by)
		}
	}
	if err := os.Chmod(saved, 0o644); err != nil {
		t.Fatal(err)
	}
	_, by, _ := examine(t, environ, "--data", g.data, "--listen", g.address)
	expect(t, by, "contexts", "warn", "other users of this machine may read the keys", "chmod 600 "+saved)

	// For people: the same with remedies, and what SDKs need.
	code, stdout, _ := invoke(t, environ, "doctor", "--data", g.data, "--listen", g.address, "--connection-string", g.connection)
	for _, want := range []string{"ok    gateway ", "remedy: cat ", "  .NET        ", " 0 failed\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("lacks %q:\n%s", want, stdout)
		}
	}
	if code != exitOK {
		t.Errorf("exit code %d", code)
	}
	// The gateway that it looked at goes on.
	g.command(t, "", "queue", "create", "after")
}

func TestDoctorLooksAtRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	code, by, all := examine(t, nil, "--data", t.TempDir(), "--listen=127.0.0.1:0", "--store", server.URL())
	expect(t, by, "store", "ok", "redis 7", strings.TrimPrefix(server.URL(), "redis://"))
	expect(t, by, "durability", "warn", "set appendonly yes")
	expect(t, by, "clock of Redis", "ok")
	if code != exitOK {
		t.Errorf("exit code %d: %s", code, all)
	}
	code, by, _ = examine(t, nil, "--data", t.TempDir(), "--listen=127.0.0.1:0", "--store=redis://localhost:1")
	expect(t, by, "store", "fail", "redis://localhost:1", "check that Redis runs there")
	if code != exitFailure {
		t.Errorf("exit code %d: %v", code, by)
	}
}

func TestHealthByContext(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--require-tls")
	g.command(t, "", "context", "save", "here", "--connection-string", g.secure, "--ca", filepath.Join(g.data, "ca.pem"))
	if got := g.command(t, "", "health", "--context=here"); !strings.Contains(got, `"status":"healthy"`) {
		t.Errorf("got %s", got)
	}
	if code, _, stderr := g.try(t, "", "", "health", g.address, "--context=here"); code != exitUsage || !strings.Contains(stderr, "HOST:PORT, or by --context") {
		t.Errorf("both: got %d %s", code, stderr)
	}
}
