package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/internal/config"
)

func TestPoliciesWithCertificatesAreChecked(t *testing.T) {
	t.Parallel()
	_, err := load(t, map[string]string{"c.yaml": `tls: {client-ca: ca.pem}
policies:
  - {name: a, certificate: CN=a, rights: Send}
  - {name: b, certificate: CN=b, key: k, rights: Send}
  - {name: c, certificate: c, rights: Send}
  - {name: e, certificate: CN=, rights: Send}
  - {name: f, certificate: "CN=f,eu", rights: Send}
  - {name: g, certificate: "CN=g, O=Example", rights: Send}
  - {name: h, certificate: 'CN=h\,eu+SERIALNUMBER=1,O=,2.5.4.99=#0c', rights: Send}
  - {name: i, certificate: "URI=spiffe://example.org/i", rights: Send}
queues:
  - {name: q, policies: [{name: d, certificate: CN=d, rights: Send}]}
`}, nil, "--config=$DIR/c.yaml")
	for _, want := range []string{
		`policies[1].certificate: policy "b" has a key and a certificate`, `policies[2].certificate: "c" is not a name of a certificate`,
		`policies[3].certificate: "CN=" is not`, `policies[4].certificate: "CN=f,eu" is not`, `policies[5].certificate: "CN=g, O=Example" is not`,
		"queues[0].policies[0].certificate: only a policy of the namespace",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	for _, right := range []string{"policies[0].certificate: policy", "policies[6]", "policies[7]"} {
		if err != nil && strings.Contains(err.Error(), right) {
			t.Errorf("got %v, want no %s", err, right)
		}
	}
	_, err = load(t, map[string]string{"c.yaml": "policies: [{name: a, certificate: CN=a, rights: Send}]\n"}, nil, "--config=$DIR/c.yaml")
	if err == nil || !strings.Contains(err.Error(), "the setting requires tls.client-ca") {
		t.Errorf("without tls.client-ca: got %v", err)
	}
}

func TestCheckReadsTheAuthoritiesOfClients(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	for ca, want := range map[string]string{"nosuch.pem": "nosuch.pem: no such file or directory: specify a PEM file", "c.yaml": "c.yaml contains no certificate in PEM"} {
		if err := os.WriteFile(file, []byte("tls: {client-ca: "+filepath.Join(dir, ca)+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Check(file, nil); err == nil || !strings.Contains(err.Error(), "c.yaml:1: tls.client-ca: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", ca, err, want)
		}
	}
}
