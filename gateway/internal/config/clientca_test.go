package config_test

import (
	"strings"
	"testing"
)

func TestPoliciesWithCertificatesAreChecked(t *testing.T) {
	t.Parallel()
	_, err := load(t, map[string]string{"c.yaml": `tls: {client-ca: ca.pem}
policies:
  - {name: a, certificate: CN=a, rights: Send}
  - {name: b, certificate: CN=b, key: k, rights: Send}
  - {name: c, certificate: c, rights: Send}
queues:
  - {name: q, policies: [{name: d, certificate: CN=d, rights: Send}]}
`}, nil, "--config=$DIR/c.yaml")
	for _, want := range []string{
		`policies[1].certificate: policy "b" has a key and a certificate`, `policies[2].certificate: "c" is not a name of a certificate`,
		"queues[0].policies[0].certificate: only a policy of the namespace",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), "policies[0].certificate: policy") {
		t.Errorf("got %v", err)
	}
	_, err = load(t, map[string]string{"c.yaml": "policies: [{name: a, certificate: CN=a, rights: Send}]\n"}, nil, "--config=$DIR/c.yaml")
	if err == nil || !strings.Contains(err.Error(), "the setting requires tls.client-ca") {
		t.Errorf("without tls.client-ca: got %v", err)
	}
}
