// Package namespaces keeps the namespaces of a gateway: a Directory finds what serves the namespace
// of an identity, with each call. The namespace is decided when the peer proves its identity: by
// the host name that it has called, else by the shared access policy whose key it has.
//
// The first namespace is the gateway's own: an identity that may Manage it runs the gateway. Others
// are configured and fixed, or made at run time. These are kept in the store's registry, which a
// Directory follows, so that every gateway knows them.
package namespaces
