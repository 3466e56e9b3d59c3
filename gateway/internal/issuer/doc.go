// Package issuer believes JSON web tokens (RFC 7519) of configured issuers: it
// finds an issuer's keys by OpenID Connect discovery or in a file, follows
// their rotation, and turns claims into rights.
package issuer
