package issuer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	fetchTimeout = 10 * time.Second
	maxDocument  = 1 << 20 // bytes of a discovery document or key set
	// refetchAfter limits fetches: every client can send tokens with unknown keys.
	refetchAfter = 10 * time.Second
	// staleAfter is how long the gateway may trust a key that its issuer has withdrawn.
	staleAfter = time.Hour
)

type keyring struct {
	fetch func(context.Context) (*jose.JSONWebKeySet, error) // nil if the keys never change
	name  string
	now   func() time.Time
	log   *slog.Logger

	turn    chan struct{} // a lock with one slot for the fields below
	held    *jose.JSONWebKeySet
	fetched time.Time // when held was fetched
	tried   time.Time
}

func newKeyring(i Issuer, o Options) (*keyring, error) {
	k := &keyring{name: i.Name, now: o.Now, log: o.Logger, turn: make(chan struct{}, 1), held: i.Keys}
	switch {
	case i.Keys != nil:
	case i.File != "":
		k.fetch = func(context.Context) (*jose.JSONWebKeySet, error) { return readFile(i.File) }
		held, err := readFile(i.File)
		if err != nil {
			return nil, err
		}
		k.held, k.fetched = held, o.Now()
	default:
		k.fetch = func(ctx context.Context) (*jose.JSONWebKeySet, error) { return discover(ctx, i.Name) }
	}
	return k, nil
}

// verify checks a token's signature, and stores its content in payload. If the key is unknown,
// verify fetches the issuer's keys once.
func (k *keyring) verify(ctx context.Context, token *jwt.JSONWebToken, payload *json.RawMessage) error {
	header := token.Headers[0]
	for _, latest := range []bool{false, true} {
		set, fresh, err := k.keys(ctx, latest)
		if err != nil {
			return err
		}
		known := false
		for _, key := range candidates(set, header) {
			known = true
			if token.Claims(key, payload) == nil {
				return nil
			}
		}
		if known && header.KeyID != "" || latest && !fresh {
			break
		}
	}
	return core.Refuse(core.Unauthorized, "InvalidSignature: The token has an invalid signature, or its issuer '%s' has withdrawn the key.", k.name)
}

func candidates(set *jose.JSONWebKeySet, header jose.Header) []jose.JSONWebKey {
	var all []jose.JSONWebKey
	for _, key := range set.Keys {
		if (header.KeyID == "" || key.KeyID == header.KeyID) &&
			(key.Use == "" || key.Use == "sig") &&
			(key.Algorithm == "" || key.Algorithm == header.Algorithm) {
			all = append(all, key)
		}
	}
	return all
}

// keys returns the issuer's keys. It fetches them if they are too old, or if latest is true and the
// last fetch is not recent. fresh means that it has fetched them.
func (k *keyring) keys(ctx context.Context, latest bool) (set *jose.JSONWebKeySet, fresh bool, err error) {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	now := k.now()
	due := k.held == nil || latest || now.Sub(k.fetched) >= staleAfter
	if k.fetch != nil && due && (k.tried.IsZero() || now.Sub(k.tried) >= refetchAfter) {
		k.tried = now
		// Other callers wait for this fetch too, so it must not end with the context of one caller.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
		defer cancel()
		set, err := k.fetch(ctx)
		if err == nil {
			k.held, k.fetched = set, now
			return set, true, nil
		}
		k.log.Warn("an issuer's keys cannot be fetched: tokens signed with a new key are refused", "issuer", k.name, "err", err)
	}
	if k.held == nil {
		return nil, false, core.Refuse(core.Busy, "The keys of the issuer '%s' cannot be fetched at the moment. Try again later.", k.name)
	}
	return k.held, false, nil
}

func readFile(path string) (*jose.JSONWebKeySet, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	set, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return set, nil
}

// parse parses a key set (RFC 7517 §5), and ignores keys of unknown kinds.
func parse(data []byte) (*jose.JSONWebKeySet, error) {
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("the document is not a JSON web key set: %w", err)
	}
	set := &jose.JSONWebKeySet{}
	for _, raw := range document.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) != nil {
			continue
		}
		if public := key.Public(); public.Valid() { // a key that is a shared secret has no public key
			set.Keys = append(set.Keys, public)
		}
	}
	if len(set.Keys) == 0 {
		return nil, errors.New("the JSON web key set contains no public key")
	}
	return set, nil
}

// discover finds an issuer's keys by OpenID Connect Discovery 1.0 §4.
func discover(ctx context.Context, issuer string) (*jose.JSONWebKeySet, error) {
	data, err := get(ctx, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return nil, err
	}
	var document struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("the discovery document of the issuer %q is not JSON: %w", issuer, err)
	}
	if document.Issuer != issuer { // §4.3 requires that they are equal
		return nil, fmt.Errorf("the discovery document of the issuer %q belongs to another issuer, %q: configure the issuer exactly as in the document", issuer, document.Issuer)
	}
	if document.Keys == "" {
		return nil, fmt.Errorf("the discovery document of the issuer %q has no jwks_uri: set a file with the keys in jwks", issuer)
	}
	if data, err = get(ctx, document.Keys); err != nil {
		return nil, err
	}
	return parse(data)
}

func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Timeout: fetchTimeout}).Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered with the status %s", url, resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err == nil && len(data) > maxDocument {
		err = fmt.Errorf("the response of %s has more than %d bytes: check the issuer's URL", url, maxDocument)
	}
	return data, err
}
