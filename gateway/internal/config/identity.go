package config

import (
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/internal/issuer"
	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
)

type Identity struct {
	Issuers           []Issuer `config:"issuers"`
	DevIdentity       bool     `config:"dev-identity" usage:"serve a token endpoint for development; every program on this machine can get a token"`
	DevIdentityListen string   `config:"dev-identity-listen" usage:"address of the token endpoint for development, host:port"`
}

// A token with a claim in Owner, Sender or Receiver, written NAME=VALUE, gets the role's rights.
type Issuer struct {
	Issuer    string         `config:"issuer"`
	JWKS      string         `config:"jwks"` // file with the issuer's keys; if "", the gateway downloads them from the issuer
	Audiences []string       `config:"audiences"`
	Leeway    *time.Duration `config:"leeway"`
	Owner     []string       `config:"owner"`
	Sender    []string       `config:"sender"`
	Receiver  []string       `config:"receiver"`
}

// The SDKs of Service Bus request tokens with these audiences.
var ServiceBusAudiences = []string{"https://servicebus.azure.net", "https://servicebus.azure.net/"}

const (
	defaultLeeway     = time.Minute
	maxLeeway         = 10 * time.Minute
	defaultDevListen  = "127.0.0.1:8421"
	issuerRemedy      = "write the issuer's https:// URL, which its tokens have in the claim iss"
	roleClaimsRemedy  = "write a claim and its value, such as roles=orders-admin, scp=send or sub=8f3c2a"
	grantsNothingHelp = "add owner, sender or receiver with claims, such as owner: [roles=orders-admin]"
	devIdentityRemedy = "listen on 127.0.0.1 only, or accept it with --dev-key-anywhere"
)

// Rules returns a rule for each claim of each role.
func (i *Issuer) Rules() (all []issuer.Rule) {
	for _, role := range i.roles() {
		for _, text := range role.claims {
			claim, value, _ := strings.Cut(text, "=")
			all = append(all, issuer.Rule{Claim: claim, Value: value, Rights: role.rights})
		}
	}
	return all
}

type role struct {
	name   string
	claims []string
	rights core.Right
}

func (i *Issuer) roles() []role {
	return []role{{"owner", i.Owner, core.AllRights}, {"sender", i.Sender, core.Send}, {"receiver", i.Receiver, core.Listen}}
}

func (i *Issuer) ClockLeeway() time.Duration {
	if i.Leeway == nil {
		return defaultLeeway
	}
	return *i.Leeway
}

func (d *Identity) validate(r *report, anywhere bool) {
	for n := range d.Issuers {
		i, path := &d.Issuers[n], elementPath("issuers", n)
		if len(i.Audiences) == 0 {
			i.Audiences = slices.Clone(ServiceBusAudiences)
		}
		i.validate(path, r)
		if slices.ContainsFunc(d.Issuers[:n], func(o Issuer) bool { return o.Issuer == i.Issuer }) {
			r.add(path+".issuer", "the issuer %q is listed twice: remove one", i.Issuer)
		}
	}
	if !d.DevIdentity || r.concerns("dev-identity-listen") {
		return
	}
	if _, _, err := net.SplitHostPort(d.DevIdentityListen); err != nil {
		r.add("dev-identity-listen", "%q is not an address to listen on: write host:port, such as %s", d.DevIdentityListen, defaultDevListen)
	} else if !anywhere && !listen.IsLoopback(d.DevIdentityListen) {
		r.add("dev-identity-listen", "other machines could get tokens with all rights at %s: %s", d.DevIdentityListen, devIdentityRemedy)
	}
}

func (i *Issuer) validate(path string, r *report) {
	switch u, err := url.Parse(i.Issuer); {
	case i.Issuer == "":
		r.add(path+".issuer", "the issuer is missing: %s", issuerRemedy)
	case i.JWKS != "": // the issuer is then only a name
	case err != nil || u.Host == "":
		r.add(path+".issuer", "%q is not a URL: %s, or set a file with the keys in jwks", i.Issuer, issuerRemedy)
	case u.Scheme != "https" && (u.Scheme != "http" || !listen.IsLoopback(net.JoinHostPort(u.Hostname(), "0"))):
		r.add(path+".issuer", "keys that are fetched over %s:// can be forged: %s, or set a file with the keys in jwks", u.Scheme, issuerRemedy)
	}
	d := i.ClockLeeway()
	r.require(path+".leeway", d >= 0 && d <= maxLeeway, "%v is out of range: use 0s to %v", d, maxLeeway)
	claims := 0
	for _, role := range i.roles() {
		claims += len(role.claims)
		for n, text := range role.claims {
			if name, value, ok := strings.Cut(text, "="); !ok || name == "" || value == "" {
				r.add(elementPath(path+"."+role.name, n), "%q does not name a claim and its value: %s", text, roleClaimsRemedy)
			}
		}
	}
	if claims == 0 {
		r.add(path, "the issuer has no role, so its tokens have no rights: %s", grantsNothingHelp)
	}
}
