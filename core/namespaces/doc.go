// Package namespaces manages the namespaces of a gateway. For each call, a Directory finds the
// broker of the namespace to which the caller's identity belongs. What determines the namespace is
// the host by which the client has called the gateway or, if no namespace has that host, the shared
// access policy whose key the client has.
// The first namespace is the gateway's own: an identity with Manage on it operates the gateway. The
// others are configured, or created at run time. Those created at run time are in the store's
// registry, which the Directory follows, so that every gateway knows them.
package namespaces
