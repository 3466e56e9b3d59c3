// Package redisstore is the store on Redis 7 or newer, or Valkey: one server,
// Sentinel or Cluster.
//
// Every partition of an entity is a handful of keys under one hash tag, so each
// change of its state is one atomic step: a script of lua/, or for plain sends a
// MULTI of native commands. Scripts handle numbers and tokens. Bodies stay out
// of Lua, except where a message is scheduled, expires, is checked for
// duplicates, belongs to a session, is published, or moves to another queue.
// lua/state.lua names the keys.
//
// A topic's partition and those of its subscriptions share a hash tag, so a
// publication with all its copies is one script; a body that several copies
// share is kept once (lua/shared_bodies.lua). Where messages belong to sessions,
// lua/sessions.lua says what is kept about those. Scripts are put together from
// these files as a partition needs them (scripts.go): plain queues run neither.
//
// The registry says in which format a store is; one that an earlier version wrote
// is upgraded before it is used (upgrade.go).
//
// Calls of the same kind on one partition share round trips (batcher.go), and
// an armed doorbell wakes those who wait (bells.go).
//
// Delivery is at least once. When the answer to an append is lost, the caller
// hears Busy although the messages may have been stored: only duplicate
// detection closes that gap. When the answer to a settlement is lost, it is
// repeated once, and may then be reported as LockLost although it took effect.
package redisstore
