// Package devidentity is a token endpoint for development: it gives every program on this machine a
// JSON web token for this gateway, over the protocols that the Azure SDKs' credentials use. It has
// its own key, which it keeps in a directory.
package devidentity
