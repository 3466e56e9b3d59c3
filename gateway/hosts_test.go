package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

func TestHostNames(t *testing.T) {
	t.Parallel()
	own := []string{"sbemulatorns", "machine-7", "bus.example.com"}
	leaf := &x509.Certificate{DNSNames: []string{"*.corp.example"}, NotAfter: time.Now().Add(time.Hour)}
	for _, c := range []struct {
		host                   string
		here, there, strangers bool // by loopback, by other interfaces; with a certificate for *.corp.example
	}{
		{"", true, true, true}, // HTTP/1.0
		{"localhost", true, true, true},
		{"LOCALHOST.:5672", true, true, true},
		{"suite-7.localhost:5672", true, true, true},
		{"127.0.0.1", true, true, true},
		{"127.8.8.8:5672", true, true, true},
		{"[::1]:5672", true, true, true},
		{"[::1]", true, true, true},
		{"[fe80::1%eth0]:5672", true, true, true},
		{"192.0.2.7:8443", true, true, true},
		{"SBEmulatorNS:5300", true, true, true},
		{"machine-7", true, true, true},
		{"bus.example.com:443", true, true, true},
		{"host.docker.internal:5672", true, true, true},
		{"a.corp.example", false, false, true},
		{"crosstown", false, true, false},
		{"servicebus_emulator:5300", false, true, false},
		{"crosstown.bus.svc.cluster.local:5672", false, true, false},
		{"crosstown.bus.svc", false, true, false},
		{"evil.example", false, false, false},
		{"evil.example:5672", false, false, false},
		{"localhost.evil.example", false, false, false},
		{"127.0.0.1.evil.example", false, false, false},
		{"evillocalhost", false, true, false},
		{"bus.example.com.evil.example", false, false, false},
		{"notbus.example.com", false, false, false},
		{"a.b.corp.example", false, false, false},
		{"2130706433", false, true, false}, // 127.0.0.1 to some, but browsers write the address
		{"[evil.example]:1", false, false, false},
		{":::", false, true, false},
	} {
		here, there := &hostNames{own: own}, &hostNames{own: own, private: true}
		if got := here.has(c.host); got != c.here {
			t.Errorf("%q on loopback: got %v, want %v", c.host, got, c.here)
		}
		if got := there.has(c.host); got != c.there {
			t.Errorf("%q elsewhere: got %v, want %v", c.host, got, c.there)
		}
		if got := (&hostNames{own: own, certificate: func() *x509.Certificate { return leaf }}).has(c.host); got != c.strangers {
			t.Errorf("%q with a certificate: got %v, want %v", c.host, got, c.strangers)
		}
	}
}

// hosted sends a request to an address by a host name of its own.
func hosted(t *testing.T, address, path, host string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	r.Header.Set("Accept", browser)
	r.SetBasicAuth("RootManageSharedAccessKey", "SAS_KEY_VALUE")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// dialed connects by WebSocket as a page of http://HOST would, and returns the
// answer's status.
func dialed(t *testing.T, address, path, protocol, host string) int {
	t.Helper()
	d := websocket.Dialer{Subprotocols: []string{protocol}}
	conn, resp, err := d.DialContext(t.Context(), "ws://"+address+path, http.Header{"Host": {host}, "Origin": {"http://" + host}})
	if err == nil {
		_ = conn.Close()
	}
	if resp == nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

func TestAPageCannotComeByANameOfItsOwnWhileTheDevelopmentKeyIsKnown(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--console=on", "--tls-hosts=bus.example.com", "--admin-listen=127.0.0.1:0")
	admin := adminLine.FindStringSubmatch(g.stdout.String())[1]
	for _, path := range []string{"/", "/health", "/orders", "/orders/messages/head", "/client/crosstown.js", "/$crosstown/metrics", "/$crosstown/plugins", "/$crosstown/pipelines"} {
		if status, body := hosted(t, g.address, path, "evil.example:5672"); status != http.StatusMisdirectedRequest || !strings.Contains(body, "evil.example:5672") || !strings.Contains(body, "tls.hosts") {
			t.Errorf("%s by a name of the page's own: got %d %s", path, status, body)
		}
		for _, host := range []string{"localhost:5672", "suite.localhost", "bus.example.com", g.address} {
			if status, body := hosted(t, g.address, path, host); status == http.StatusMisdirectedRequest {
				t.Errorf("%s by %s: got %d %s", path, host, status, body)
			}
		}
	}
	for path, protocol := range map[string]string{"/$servicebus/websocket": "amqp", "/$crosstown/ws": "crosstown.v1.json"} {
		if got := dialed(t, g.address, path, protocol, "evil.example"); got != http.StatusMisdirectedRequest {
			t.Errorf("WebSocket %s by a name of the page's own: got %d", path, got)
		}
		if got := dialed(t, g.address, path, protocol, "localhost"); got != http.StatusSwitchingProtocols {
			t.Errorf("WebSocket %s by localhost: got %d", path, got)
		}
	}
	for _, path := range []string{"/metrics", "/debug/pprof/"} {
		if status, _ := hosted(t, admin, path, "evil.example"); status != http.StatusMisdirectedRequest {
			t.Errorf("admin %s by a name of the page's own: got %d", path, status)
		}
		if status, _ := hosted(t, admin, path, "localhost"); status != http.StatusOK {
			t.Errorf("admin %s by localhost: got %d", path, status)
		}
	}
}

func TestContainersComeByTheirServicesNames(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--listen=0.0.0.0:0", "--dev-key-anywhere")
	for host, want := range map[string]int{"emulator:5300": 200, "crosstown.bus.svc.cluster.local": 200, "evil.example": 421} {
		if status, _ := hosted(t, g.address, "/health", host); status != want {
			t.Errorf("by %s: got %d, want %d", host, status, want)
		}
	}
}

func TestAnyHostWillDoWithAKeyOfOnesOwn(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "--store=memory", "--policy=RootManageSharedAccessKey=secret:Manage")
	if status, body := hosted(t, g.address, "/health", "evil.example"); status != http.StatusOK {
		t.Errorf("got %d %s", status, body)
	}
}

func TestNamesOfTheUsersCertificateAreTheGateways(t *testing.T) {
	t.Parallel()
	cert, key := selfSigned(t, "*.corp.example")
	g := startGateway(t, "--store=memory", "--tls-cert="+cert, "--tls-key="+key)
	for host, want := range map[string]int{"bus.corp.example:5671": 200, "evil.example": 421} {
		if status, _ := hosted(t, g.address, "/health", host); status != want {
			t.Errorf("by %s: got %d, want %d", host, status, want)
		}
	}
}

// selfSigned writes a certificate for names, and its key.
func selfSigned(t *testing.T, names ...string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: slices.Clone(names), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
