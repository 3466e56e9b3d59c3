// Package issuer verifies JSON web tokens (RFC 7519) from configured issuers, and maps claims to
// rights. It gets keys by OpenID Connect discovery or from a file, and follows their rotation.
package issuer
