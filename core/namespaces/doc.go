// Package namespaces keeps the namespaces of a gateway. A Directory finds, for each call, the
// broker of the namespace that the caller's identity belongs to. The namespace is decided when the
// peer proves its identity: by the host name that it has used, otherwise by the shared access
// policy whose key it has.
//
// The first namespace is the gateway's own: an identity that may Manage it runs the gateway. Others
// are configured and fixed, or made at run time. These are kept in the store's registry, which a
// Directory follows, so that every gateway knows them.
package namespaces
