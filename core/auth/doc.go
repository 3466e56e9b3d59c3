// Package auth verifies identities with shared access policies. A client proves its identity with
// the name and key of a policy, or with a signature, made with that key, of a resource and an
// expiry time. Issuers verifies JSON web tokens. For clients and tests, the package also signs
// tokens and parses connection strings.
package auth
