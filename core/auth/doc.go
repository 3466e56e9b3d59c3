// Package auth proves identities by shared access policies: a policy's name and
// key, or a signature made with that key over a resource and an expiry time. It
// also signs, and reads connection strings, for clients and tests.
package auth
