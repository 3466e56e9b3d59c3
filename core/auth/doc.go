// Package auth proves identities by shared access policies: a policy's name and
// key, or a signature made with that key over a resource and an expiry time. JSON
// web tokens it hands to whoever knows their issuers. It also signs, and reads
// connection strings, for clients and tests.
package auth
