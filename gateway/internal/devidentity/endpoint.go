package devidentity

import (
	"crypto/subtle"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/gateway/internal/listen"
)

// AppServicePath is the path of the address that clients get in IDENTITY_ENDPOINT.
const AppServicePath = "/msi/token"

const maxForm = 64 << 10

// Handler answers these credentials of the SDKs: ManagedIdentityCredential of App Service, with the
// secret in X-IDENTITY-HEADER; ManagedIdentityCredential of a virtual machine, with "Metadata:
// true"; and ClientSecretCredential, with the secret as client secret. The client id selects the
// role: sender, receiver or, for any other id, owner. Handler refuses requests that a web page
// could make a browser send.
func (i *Identity) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+AppServicePath, i.appService)
	mux.HandleFunc("GET /metadata/identity/oauth2/token", i.virtualMachine)
	mux.HandleFunc("POST /{tenant}/oauth2/v2.0/token", i.clientSecret)
	mux.HandleFunc("GET /{tenant}/v2.0/.well-known/openid-configuration", describe)
	mux.HandleFunc("GET /{tenant}/discovery/v2.0/keys", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, i.Keys()) })
	return listen.SameSite(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A web page's domain may resolve to this machine: then Host has the domain.
		if !isLocal(r.Host) || r.Header.Get("X-Forwarded-For") != "" {
			refuse(w, http.StatusForbidden, "access_denied", "Call this endpoint directly at localhost or an IP address, not through a proxy.")
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(host, "localhost")
}

func (i *Identity) appService(w http.ResponseWriter, r *http.Request) {
	if !i.knows(r.Header.Get("X-IDENTITY-HEADER")) {
		refuse(w, http.StatusUnauthorized, "invalid_client", "The header X-IDENTITY-HEADER differs from the IDENTITY_HEADER that the gateway prints when it starts.")
		return
	}
	i.managed(w, r)
}

func (i *Identity) virtualMachine(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Metadata"), "true") {
		refuse(w, http.StatusBadRequest, "invalid_request", "The header 'Metadata: true' is missing.")
		return
	}
	i.managed(w, r)
}

// managed answers as the endpoints of managed identities do: with numbers in strings.
func (i *Identity) managed(w http.ResponseWriter, r *http.Request) {
	resource, client := r.FormValue("resource"), r.FormValue("client_id")
	if resource == "" {
		refuse(w, http.StatusBadRequest, "invalid_resource", "The parameter resource is missing: set a resource such as https://servicebus.azure.net.")
		return
	}
	now := time.Now()
	token, err := i.token(client, resource, now)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "server_error", err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]string{
		"access_token": token,
		"client_id":    client,
		"expires_in":   strconv.Itoa(int(lifetime.Seconds())),
		"expires_on":   strconv.FormatInt(now.Add(lifetime).Unix(), 10),
		"not_before":   strconv.FormatInt(now.Unix(), 10),
		"resource":     resource,
		"token_type":   "Bearer",
	})
}

// clientSecret implements the client credentials grant (RFC 6749 §4.4) as Microsoft Entra does.
func (i *Identity) clientSecret(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	client, secret := r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	switch {
	case r.PostFormValue("grant_type") != "client_credentials":
		refuse(w, http.StatusBadRequest, "unsupported_grant_type", "Only the grant type client_credentials is supported.")
		return
	case !i.knows(secret):
		refuse(w, http.StatusUnauthorized, "invalid_client", "The client secret differs from the IDENTITY_HEADER that the gateway prints when it starts.")
		return
	}
	var audience string
	for scope := range strings.FieldsSeq(r.PostFormValue("scope")) {
		if resource, ok := strings.CutSuffix(scope, "/.default"); ok {
			audience = resource
		}
	}
	if audience == "" {
		refuse(w, http.StatusBadRequest, "invalid_scope", "The scope is not valid: use a resource followed by /.default, such as https://servicebus.azure.net/.default.")
		return
	}
	token, err := i.token(client, audience, time.Now())
	if err != nil {
		refuse(w, http.StatusInternalServerError, "server_error", err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]any{
		"access_token":   token,
		"expires_in":     int(lifetime.Seconds()),
		"ext_expires_in": int(lifetime.Seconds()),
		"token_type":     "Bearer",
	})
}

func describe(w http.ResponseWriter, r *http.Request) {
	base := "http://" + r.Host + "/" + r.PathValue("tenant")
	if r.TLS != nil {
		base = "https" + strings.TrimPrefix(base, "http")
	}
	answer(w, http.StatusOK, map[string]any{
		"issuer":                                base + "/v2.0",
		"authorization_endpoint":                base + "/oauth2/v2.0/authorize",
		"token_endpoint":                        base + "/oauth2/v2.0/token",
		"jwks_uri":                              base + "/discovery/v2.0/keys",
		"grant_types_supported":                 []string{"client_credentials"},
		"response_types_supported":              []string{"token"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []string{"ES256"},
	})
}

func (i *Identity) knows(secret string) bool {
	return subtle.ConstantTimeCompare([]byte(secret), []byte(i.secret)) == 1
}

func refuse(w http.ResponseWriter, status int, word, text string) {
	answer(w, status, map[string]string{"error": word, "error_description": text})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store") // RFC 6749 §5.1
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // ignore the error: the client may have disconnected
}
