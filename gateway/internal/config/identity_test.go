package config_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/issuer"
)

func TestIssuersAreReadWithTheirRoles(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, map[string]string{"c.yaml": `
issuers:
  - issuer: https://login.example/tenant/v2.0
    owner: [roles=admin, "sub=a=b"]
    receiver: [roles=admin, roles=reader]
  - issuer: partner
    jwks: partner.json
    audiences: [crosstown]
    leeway: 0s
    sender: scp=send
`}, []string{"CROSSTOWN_CONFIG=$DIR/c.yaml"})
	if len(c.Issuers) != 2 {
		t.Fatalf("got %+v", c.Issuers)
	}
	first, second := c.Issuers[0], c.Issuers[1]
	if !slices.Equal(first.Audiences, config.ServiceBusAudiences) || first.ClockLeeway() != time.Minute {
		t.Errorf("defaults: got %v, %v", first.Audiences, first.ClockLeeway())
	}
	want := []issuer.Rule{
		{Claim: "roles", Value: "admin", Rights: core.AllRights},
		{Claim: "sub", Value: "a=b", Rights: core.AllRights},
		{Claim: "roles", Value: "admin", Rights: core.Listen},
		{Claim: "roles", Value: "reader", Rights: core.Listen},
	}
	if !slices.Equal(first.Rules(), want) {
		t.Errorf("got %v, want %v", first.Rules(), want)
	}
	if !slices.Equal(second.Audiences, []string{"crosstown"}) || second.ClockLeeway() != 0 || !slices.Equal(second.Rules(), []issuer.Rule{{Claim: "scp", Value: "send", Rights: core.Send}}) {
		t.Errorf("got %+v", second)
	}
}

func TestWhatIsWrongWithIssuersIsReported(t *testing.T) {
	t.Parallel()
	_, err := load(t, map[string]string{"c.yaml": `issuers:
  - owner: [roles=x]
  - {issuer: http://login.example, owner: [roles=x]}
  - {issuer: login, owner: [roles=x]}
  - {issuer: https://login.example, leeway: 1h}
  - {issuer: https://login.example, sender: [admin, =x]}
`}, nil, "--config=$DIR/c.yaml")
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"c.yaml:2: issuers[0].issuer: the issuer is missing", "c.yaml:3: issuers[1].issuer: keys that are fetched over http://", "c.yaml:4: issuers[2].issuer: \"login\" is not a URL",
		"c.yaml:5: issuers[3].leeway: 1h0m0s is out of range", "c.yaml:5: issuers[3]: the issuer has no role",
		"c.yaml:6: issuers[4].issuer: the issuer \"https://login.example\" is listed twice", "issuers[4].sender[0]: \"admin\" does not name a claim", "issuers[4].sender[1]: \"=x\" does not name a claim",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q:\n%v", want, err)
		}
	}
}

func TestTheDevelopmentIdentityStaysOnThisMachine(t *testing.T) {
	t.Parallel()
	if c := mustLoad(t, nil, nil, "--dev-identity"); !c.DevIdentity || c.DevIdentityListen != "127.0.0.1:8421" {
		t.Errorf("got %+v", c.Identity)
	}
	_, err := load(t, nil, nil, "--dev-identity", "--dev-identity-listen=:8421")
	if err == nil || !strings.Contains(err.Error(), "--dev-identity-listen: other machines could get tokens") || !strings.Contains(err.Error(), "--dev-key-anywhere") {
		t.Errorf("got %v", err)
	}
	if _, err := load(t, nil, nil, "--dev-identity", "--dev-identity-listen=nonsense"); err == nil || !strings.Contains(err.Error(), "not an address to listen on") {
		t.Errorf("got %v", err)
	}
	mustLoad(t, nil, nil, "--dev-identity", "--dev-identity-listen=:8421", "--dev-key-anywhere")
	mustLoad(t, nil, nil, "--dev-identity-listen=:8421") // not served
}
