// Package redis is the store on Redis 7 or newer, or Valkey: a single server, Sentinel or
// Cluster.
//
// Each partition of an entity is a set of keys under one hash tag, so each change of its state is
// one atomic step: a script of lua/, or for plain sends a MULTI of native commands. Scripts handle
// numbers and tokens. Bodies do not pass through Lua, except where a message is scheduled, expires,
// is checked for duplicates, belongs to a session, is published, or moves to another queue.
// lua/state.lua names the keys.
//
// A topic's partition and those of its subscriptions share a hash tag, so a publication with all
// its copies is one script. A body that several copies share is kept once (lua/shared_bodies.lua).
// lua/sessions.lua describes what is kept about sessions. The loader puts scripts together from
// these files as a partition needs them (scripts.go): those of a plain queue contain neither.
//
// The registry holds the format of the store. A store of another format is
// refused (format.go).
//
// Calls of the same kind on one partition share round trips (batcher.go). An armed doorbell wakes
// the gateways that wait for messages (doorbells.go).
//
// What calls exchange with Redis goes through one function (transport.go), which also waits for
// replicas where the URL says so.
//
// Delivery is at least once. When the answer to an append is lost, the caller gets Busy although
// the messages may have been stored: only duplicate detection closes that gap. When the answer to a
// settlement is lost, it is repeated once, and may then be reported as LockLost although it took
// effect.
package redis
