// Package devidentity is a token endpoint for development: it gives every program on this machine a
// JSON web token for this gateway, in the ways in which the Azure SDKs' credentials ask. It has a
// key of its own, kept in a directory.
package devidentity
