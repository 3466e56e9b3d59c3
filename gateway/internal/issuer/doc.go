// Package issuer verifies JSON web tokens (RFC 7519) of configured issuers. It finds an issuer's
// keys by OpenID Connect discovery or in a file, follows their rotation, and maps claims to rights.
package issuer
