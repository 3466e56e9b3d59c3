// Package devidentity is a token endpoint for development. It issues JSON web tokens for this
// gateway to all programs on this machine, over the protocols of the Azure SDKs' credentials.
package devidentity
