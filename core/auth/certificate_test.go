package auth

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"slices"
	"testing"
)

func TestNamesOfACertificateAreUnambiguous(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		c    x509.Certificate
		want []string
	}{
		{
			x509.Certificate{Subject: pkix.Name{CommonName: "app1", Organization: []string{"Example"}}, DNSNames: []string{"app1.example"}, URIs: []*url.URL{{Scheme: "spiffe", Host: "app1"}}},
			[]string{"CN=app1", "CN=app1,O=Example", "DNS=app1.example", "URI=spiffe://app1"},
		},
		{x509.Certificate{Subject: pkix.Name{CommonName: "app1,O=Example"}}, []string{`CN=app1\,O=Example`}},
		{x509.Certificate{Subject: pkix.Name{Organization: []string{"Example"}}}, []string{"O=Example"}},
		{x509.Certificate{}, nil},
	} {
		if got := NamesOf(&tt.c); !slices.Equal(got, tt.want) {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
