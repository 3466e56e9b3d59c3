package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// maxLookups bounds the entities that one unproven token can make us look up.
const maxLookups = 16

// Options say whom an Authority believes.
type Options struct {
	// Namespace and NamespaceID are those of the grants.
	Namespace, NamespaceID string
	// Policies are those of the namespace.
	Policies []core.AccessRule
	// Entities finds an entity for its own authorization rules. Nil: there are none.
	Entities func(ctx context.Context, name string) (core.Entity, error)
	// Hosts are names of this server. A signed resource without a scheme may be
	// a bare host; a first segment that is one of Hosts, "localhost" or contains
	// a colon is taken for one, any other for an entity's name.
	Hosts []string
	// Now defaults to time.Now.
	Now func() time.Time
	// Skew is how long after its expiry a signature is still accepted; default none.
	Skew time.Duration
	// Issuers verifies JSON web tokens. Nil: none is accepted.
	Issuers Issuers
}

// Issuers verifies JSON web tokens of issuers that are believed. Errors are as
// Authority.Token's.
type Issuers interface {
	Verify(ctx context.Context, token string) (core.Grant, error)
}

// Authority verifies tokens and keys of one namespace, by whatever name peers
// call it. It implements core.Authority.
type Authority struct {
	name     string
	id       string
	policies []core.AccessRule
	entities func(ctx context.Context, name string) (core.Entity, error)
	hosts    []string
	now      func() time.Time
	skew     time.Duration
	issuers  Issuers
}

// New makes an Authority.
func New(o Options) *Authority {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Authority{
		name:     o.Namespace,
		id:       o.NamespaceID,
		policies: o.Policies,
		entities: o.Entities,
		hosts:    append([]string{"localhost"}, o.Hosts...),
		now:      o.Now,
		skew:     o.Skew,
		issuers:  o.Issuers,
	}
}

// Token implements core.Authority. A signature is verified before its expiry,
// so that only the holder of a key learns more than that it is invalid. A JSON
// web token, with or without "Bearer " before it, is for the whole namespace:
// who may do less is said by its rights.
func (a *Authority) Token(ctx context.Context, _ []string, token, audience string) (core.Grant, error) {
	if strings.TrimSpace(token) == "" {
		return core.Grant{}, core.Refuse(core.Unauthorized, "MissingToken: No shared access signature was given.")
	}
	if web, ok := cutWebToken(token); ok {
		if a.issuers == nil {
			return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidToken: This gateway does not accept JSON web tokens. Use a shared access signature, or have an issuer configured.")
		}
		grant, err := a.issuers.Verify(ctx, web)
		grant.Namespace, grant.NamespaceID = a.name, a.id
		return grant, err
	}
	s, err := parseSAS(token)
	if err != nil {
		return core.Grant{}, err
	}
	resource := a.resource(s.resource)
	rights, err := a.verify(ctx, s, resource)
	if err != nil {
		return core.Grant{}, err
	}
	expires := s.expires.Add(a.skew)
	if !a.now().Before(expires) {
		return core.Grant{}, core.Refuse(core.Unauthorized, "ExpiredToken: The token is expired. Expiration time: %s.", s.expires.UTC().Format(time.RFC3339))
	}
	if audience != "" && !covers(resource, core.FoldName(core.ResourcePath(audience))) {
		return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidAudience: The token is for '%s', which does not cover '%s'.", s.resource, audience)
	}
	return core.Grant{Namespace: a.name, NamespaceID: a.id, Policy: s.policy, Rights: rights, Scope: resource, Expires: expires}, nil
}

// Signature is a shared access signature that was read, and is not proven.
type Signature struct{ sas sas }

// ParseSignature reads a token. web says that it is a JSON web token instead, which
// names no policy.
func ParseSignature(token string) (s Signature, web bool, err error) {
	if _, web := cutWebToken(token); web {
		return Signature{}, true, nil
	}
	read, err := parseSAS(token)
	return Signature{read}, false, err
}

// Policy is the name of the shared access policy that the token claims to be of.
func (s *Signature) Policy() string { return s.sas.policy }

// SignedBy reports whether a key of one of the policies made the signature,
// whatever it is for and whether it has expired.
func (s *Signature) SignedBy(policies []core.AccessRule) bool {
	return s.sas.signedBy(policies) != 0
}

// cutWebToken returns the JSON web token in what a peer gave as its token, if
// that is one: RFC 6750 §2.1 has "Bearer " before it, SDKs leave that out too.
func cutWebToken(token string) (string, bool) {
	token = strings.TrimSpace(token)
	if scheme, rest, ok := strings.Cut(token, " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(rest), true
	}
	// The header is an object, which begins so in base64.
	return token, strings.HasPrefix(token, "eyJ") && !strings.Contains(token, "=")
}

// Key implements core.Authority. It knows the namespace's policies only, because
// a name and a key do not say which entity they are for.
func (a *Authority) Key(_ context.Context, _ []string, policy, key string) (core.Grant, error) {
	if len(key) > maxToken { // hashing it, perhaps for each of many namespaces, would be work for nothing
		return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidKey: The key has %d bytes, at most %d are read.", len(key), maxToken)
	}
	given := sha256.Sum256([]byte(key))
	for _, p := range a.policies {
		if p.Name == policy && (sameKey(given, p.PrimaryKey) || sameKey(given, p.SecondaryKey)) {
			return core.Grant{Namespace: a.name, NamespaceID: a.id, Policy: p.Name, Rights: p.Rights}, nil
		}
	}
	return core.Grant{}, core.Refuse(core.Unauthorized, "InvalidKey: The namespace has no shared access policy '%s' with this key.", policy)
}

// Enter implements core.Authority: everybody may, and nothing ends it.
func (a *Authority) Enter(core.Identity, func(error)) (leave func(), err error) {
	return func() {}, nil
}

func sameKey(given [sha256.Size]byte, key string) bool {
	want := sha256.Sum256([]byte(key))
	return key != "" && subtle.ConstantTimeCompare(given[:], want[:]) == 1
}

// verify finds the policy that the token names and whose key made its signature.
// Where there is none, whether a policy has the name is nothing for strangers: it
// would tell them which namespaces and entities there are.
func (a *Authority) verify(ctx context.Context, s sas, resource string) (core.Right, error) {
	if rights := s.signedBy(a.policies); rights != 0 {
		return rights, nil
	}
	rules, err := a.entityRules(ctx, resource)
	if err != nil {
		return 0, err
	}
	if rights := s.signedBy(rules); rights != 0 {
		return rights, nil
	}
	return 0, core.Refuse(core.Unauthorized, "InvalidSignature: The token has an invalid signature.")
}

// entityRules returns the rules of the entity that the resource names or lies
// in: the one with the longest name that begins the resource.
func (a *Authority) entityRules(ctx context.Context, resource string) ([]core.AccessRule, error) {
	if a.entities == nil {
		return nil, nil
	}
	for range maxLookups {
		if resource == "" || strings.HasPrefix(resource, "$") {
			return nil, nil
		}
		switch e, err := a.entities(ctx, resource); core.CodeOf(err) {
		case "":
			return e.Settings.AuthorizationRules, nil
		case core.NotFound:
		default:
			return nil, err
		}
		resource = resource[:max(0, strings.LastIndexByte(resource, '/'))]
	}
	return nil, nil
}

// resource is the folded path that a signed resource stands for: its scheme,
// authority, query and outer slashes are of no account.
func (a *Authority) resource(signed string) string {
	if !strings.Contains(signed, "://") {
		bare := strings.TrimLeft(signed, "/")
		first, rest, _ := strings.Cut(bare, "/")
		first, _, _ = strings.Cut(first, "?")
		if a.isHost(first) {
			signed = "sb://" + first + "/" + rest
		}
	}
	return core.FoldName(core.ResourcePath(signed))
}

func (a *Authority) isHost(segment string) bool {
	if strings.Contains(segment, ":") { // no name of an entity has one
		return true
	}
	for _, h := range a.hosts {
		if strings.EqualFold(segment, h) {
			return true
		}
	}
	return false
}

// covers reports whether path is scope or lies below it. Both are folded.
func covers(scope, path string) bool {
	rest, ok := strings.CutPrefix(path, scope)
	return ok && (scope == "" || rest == "" || rest[0] == '/')
}
