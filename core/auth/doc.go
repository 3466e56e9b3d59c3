// Package auth proves identities by shared access policies: by a policy's name and key, or by a
// signature made with that key over a resource and an expiry time. It passes JSON web tokens to the
// verifier of their issuers. For clients and tests it also signs, and parses connection strings.
package auth
