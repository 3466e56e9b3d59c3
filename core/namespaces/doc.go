// Package namespaces serves several namespaces as one broker: it hands each call
// to the namespace of the identity that asks. Which that is was decided where the
// peer proved who it is: by the name by which it called the gateway, else by the
// shared access policy whose key it has.
//
// The first namespace is the gateway's own: who may Manage it runs the gateway.
// Others are configured, and stay as they are, or made at run time: these are kept
// in the store's registry, which a Directory follows, so that every gateway knows
// them.
package namespaces
