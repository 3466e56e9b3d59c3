// Package namespaces manages the namespaces of a gateway. For each call, a Directory finds the
// broker of the namespace that the caller's identity belongs to. The namespace is determined when
// the peer proves its identity: by the host name that the peer has used, otherwise by the shared
// access policy whose key it has.
//
// The first namespace is the gateway's own: an identity with Manage on it operates the gateway. The
// others are configured and fixed, or created at run time. Those created at run time are in the
// store's registry, which the Directory follows, so that every gateway knows them.
package namespaces
