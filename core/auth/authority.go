package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"crypto/x509/pkix"
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

type Options struct {
	// Namespace and NamespaceID are the name and the ID that grants contain.
	Namespace, NamespaceID string
	Policies               []core.AccessRule
	// Entities finds an entity: its policies may sign tokens. nil: entities have no policies.
	Entities func(ctx context.Context, name string) (core.Entity, error)
	// Hosts are names of this server. In a signed resource without a scheme, the first segment is a
	// host if it is one of Hosts or "localhost", or contains a colon; otherwise an entity's name.
	Hosts []string
	// Issuers verifies JSON web tokens. If it is nil, they are refused.
	Issuers Issuers
}

type Issuers interface {
	Verify(ctx context.Context, token string) (core.Grant, error)
}

// Authority implements core.Authority for one namespace, under any name by which clients call it.
type Authority struct{ o Options }

func New(o Options) *Authority {
	o.Hosts = append([]string{"localhost"}, o.Hosts...)
	return &Authority{o}
}

// Token verifies the signature before the expiry, so that only a holder of a key learns why a token
// is refused. A JSON web token, perhaps after "Bearer ", is for the whole namespace, but only with
// the token's rights.
func (a *Authority) Token(ctx context.Context, _ []string, token, audience string) (core.Grant, error) {
	if c := core.CertificateOf(ctx); c != nil && token == "" {
		return a.certified(c)
	}
	if strings.TrimSpace(token) == "" {
		return core.Grant{}, core.Refuse(core.Unauthorized, "MissingToken: No shared access signature was given.")
	}
	if web, ok := cutWebToken(token); ok {
		if a.o.Issuers == nil {
			return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidToken: This gateway does not accept JSON web tokens. Use a shared access signature, or ask the operator to configure an issuer.")
		}
		grant, err := a.o.Issuers.Verify(ctx, web)
		grant.Namespace, grant.NamespaceID = a.o.Namespace, a.o.NamespaceID
		return grant, err
	}
	s, err := parseSAS(token)
	if err != nil {
		return core.Grant{}, err
	}
	resource, host, err := a.resource(s.Resource)
	if err != nil {
		return core.Grant{}, err
	}
	grant, err := a.verify(ctx, s, resource)
	if err != nil {
		return core.Grant{}, err
	}
	if !time.Now().Before(s.expires) {
		return core.Grant{}, core.Refuse(core.Unauthorized, "ExpiredToken: The token is expired. Expiration time: %s.", s.expires.UTC().Format(time.RFC3339))
	}
	if audience != "" && !core.IsWithin(core.FoldName(core.ResourcePath(audience)), resource) {
		return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidAudience: The token is for '%s', which does not cover '%s'.", s.Resource, audience)
	}
	if err := a.checkHost(ctx, s.Resource, resource, host); err != nil {
		return core.Grant{}, err
	}
	grant.Expires = s.expires
	return grant, nil
}

// certified returns the grant of the first policy that names the client's certificate (see
// NamesOf). The grant expires with the certificate.
func (a *Authority) certified(c *x509.Certificate) (core.Grant, error) {
	names := NamesOf(c)
	for _, p := range a.o.Policies {
		if p.Certificate != "" && slices.Contains(names, p.Certificate) {
			return core.Grant{Namespace: a.o.Namespace, NamespaceID: a.o.NamespaceID, Policy: p.Name, Rights: p.Rights, Expires: c.NotAfter}, nil
		}
	}
	return core.Grant{}, core.Refuse(core.Unauthorized, "UnknownCertificate: No policy of the namespace accepts the client's certificate: add a policy whose setting 'certificate' is one of %.500q.", names)
}

// NamesOf returns the names of a client's certificate in the form of policies: CN= with the common
// name, the whole subject, and DNS= and URI= with the alternative names. The first two escape
// special characters (RFC 4514 §2.4), so that no common name can pass for a subject.
func NamesOf(c *x509.Certificate) (names []string) {
	if c.Subject.CommonName != "" {
		names = append(names, pkix.Name{CommonName: c.Subject.CommonName}.String())
	}
	if subject := c.Subject.String(); subject != "" {
		names = append(names, subject)
	}
	for _, name := range c.DNSNames {
		names = append(names, "DNS="+name)
	}
	for _, u := range c.URIs {
		names = append(names, "URI="+u.String())
	}
	return slices.Compact(names)
}

// If the token is a JSON web token, which names no policy, web is true and s is empty.
func ParseSignature(token string) (s Signature, web bool, err error) {
	if _, web = cutWebToken(token); !web {
		s, err = parseSAS(token)
	}
	return s, web, err
}

// cutWebToken returns the JSON web token in a client's token, if it is one. RFC 6750 §2.1 puts
// "Bearer " before it, which SDKs may leave out.
func cutWebToken(token string) (string, bool) {
	token = strings.TrimSpace(token)
	if scheme, rest, ok := strings.Cut(token, " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(rest), true
	}
	// A JSON web token begins with a JSON object in base64, and {" is eyJ in base64.
	return token, strings.HasPrefix(token, "eyJ") && !strings.Contains(token, "=")
}

// Key accepts only the namespace's policies: name and key do not say which entity they are for.
func (a *Authority) Key(_ context.Context, _ []string, policy, key string) (core.Grant, error) {
	if len(key) > maxToken { // do not waste work on hashing it, perhaps for many namespaces
		return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidKey: The key has %d bytes: at most %d are allowed.", len(key), maxToken)
	}
	given := sha256.Sum256([]byte(key))
	for _, p := range a.o.Policies {
		if p.Name == policy && (sameKey(given, p.PrimaryKey) || sameKey(given, p.SecondaryKey)) {
			return core.Grant{Namespace: a.o.Namespace, NamespaceID: a.o.NamespaceID, Policy: p.Name, Rights: p.Rights}, nil
		}
	}
	return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidKey: The namespace has no shared access policy '%s' with this key.", policy)
}

// Enter neither limits nor ends connections.
func (a *Authority) Enter(core.Identity, func(error)) (leave func(), err error) {
	return func() {}, nil
}

func sameKey(given [sha256.Size]byte, key string) bool {
	want := sha256.Sum256([]byte(key))
	return key != "" && subtle.ConstantTimeCompare(given[:], want[:]) == 1
}

// verify returns the grant of the policy that the token names, if a key of that policy has made the
// signature. The policy belongs to the namespace, or to the entity in the resource. A refusal does
// not say whether the policy exists, because this would reveal namespaces and entities.
func (a *Authority) verify(ctx context.Context, s Signature, resource string) (core.Grant, error) {
	grant := core.Grant{Namespace: a.o.Namespace, NamespaceID: a.o.NamespaceID, Policy: s.Policy, Scope: resource}
	if grant.Rights = s.SignedBy(a.o.Policies); grant.Rights != 0 {
		return grant, nil
	}
	rules, err := a.entityRules(ctx, core.EntityOf(resource))
	if err != nil {
		return core.Grant{}, err
	}
	if grant.Rights = s.SignedBy(rules); grant.Rights != 0 {
		grant.OfEntity = true
		return grant, nil
	}
	return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidSignature: The token has an invalid signature.")
}

// entityRules returns the policies of an entity. HTTP clients sign the URL that they call: if there
// is no such entity, entityRules looks for the name without a last segment "messages".
func (a *Authority) entityRules(ctx context.Context, name string) ([]core.AccessRule, error) {
	if a.o.Entities == nil || name == "" || strings.HasPrefix(name, "$") {
		return nil, nil
	}
	e, err := a.o.Entities(ctx, name)
	if core.CodeOf(err) == core.NotFound {
		i := strings.LastIndex(name+"/", "/messages/")
		if i <= 0 {
			return nil, nil
		}
		e, err = a.o.Entities(ctx, name[:i])
	}
	if core.CodeOf(err) == core.NotFound {
		return nil, nil
	}
	return e.Settings.AuthorizationRules, err
}

// resource returns the lower-case path of a signed resource, and its host as written ("" without
// one). It ignores the scheme, the query and outer slashes. A resource without a path means the
// whole namespace, but only if it has a host.
func (a *Authority) resource(signed string) (path, host string, err error) {
	bad := func(why string) (string, string, error) {
		return "", "", malformedResource(signed, why)
	}
	if strings.ContainsFunc(signed, func(r rune) bool { return r < ' ' || r == '\\' || r == 0x7f }) {
		return bad("has a character that is not allowed in a URI")
	}
	var rest string
	if scheme, after, ok := strings.Cut(signed, "://"); ok {
		if scheme == "" || strings.ContainsAny(scheme, "/?#") {
			return bad("has no scheme before '://'")
		}
		rest = after
	} else if first, _, _ := strings.Cut(strings.TrimLeft(signed, "/"), "/"); a.isHost(strings.SplitN(first, "?", 2)[0]) {
		rest = strings.TrimLeft(signed, "/")
	} else {
		rest = "/" + signed // a path without a host
	}
	host = rest
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		if host = rest[:end]; rest[end] == '?' && strings.Contains(rest[end:], "/") {
			return bad("has a question mark before its path")
		}
	}
	if !strings.HasPrefix(host, "[") { // the zone of an IPv6 address may have a percent sign
		name, port, _ := strings.Cut(host, ":")
		if strings.ContainsAny(name, "%#@ ;,&=!$'()*+") {
			return bad("has a host with a character that is not allowed in host names")
		}
		if strings.Trim(port, "0123456789") != "" {
			return bad("has a port that is not a number")
		}
	}
	path = core.FoldName(core.ResourcePath("sb://" + rest))
	if path == "" && host == "" {
		return bad("names neither a host nor an entity")
	}
	return path, host, nil
}

// checkHost refuses a token for the whole namespace whose host is unknown but is the name of an
// entity: the token's creator has left out the host before the entity's name.
func (a *Authority) checkHost(ctx context.Context, signed, path, host string) error {
	if path != "" || a.o.Entities == nil || strings.Contains(host, ".") || a.isHost(host) {
		return nil
	}
	switch _, err := a.o.Entities(ctx, core.FoldName(host)); core.CodeOf(err) {
	case core.NotFound:
		return nil
	case "":
		return malformedResource(signed, "lacks a host before the entity")
	default:
		return err
	}
}

func malformedResource(signed, why string) error {
	return core.Refuse(core.Unauthorized, "MalformedToken: The token's resource '%.200s' %s. Sign a URI such as 'sb://HOST/ENTITY', or 'sb://HOST/' for the whole namespace.", signed, why)
}

func (a *Authority) isHost(segment string) bool {
	if strings.HasPrefix(segment, "[") {
		return true
	}
	if _, port, ok := strings.Cut(segment, ":"); ok { // names of entities have no colon, and REMOTE:ENTITY belongs to another broker
		return port != "" && strings.Trim(port, "0123456789") == ""
	}
	return slices.ContainsFunc(a.o.Hosts, func(h string) bool { return strings.EqualFold(segment, h) })
}
