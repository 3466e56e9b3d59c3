// Package redis is the store on Redis 7 or newer, or Valkey: a single server, Sentinel or
// Cluster.
//
// Each partition of an entity is a set of keys under one hash tag, so each change of its state is
// one atomic step: a script, or for plain sends a MULTI of native commands. Scripts process numbers
// and tokens. Bodies do not pass through Lua, unless a message is scheduled, expires, is checked
// for duplicates, belongs to a session, is published, or moves to another queue.
//
// This package has the operations on partitions. Below it:
//
//   - internal/catalogue keeps namespaces, entities and rules,
//   - internal/doorbell wakes the gateways that wait for messages,
//   - internal/batching lets calls of one kind on one partition share exchanges,
//   - internal/server knows the server: its clock, the stamp and format of the store, and the other
//     gateways; a store of another format is refused,
//   - internal/conn exchanges commands with the servers, and waits for replicas where the URL says
//     so,
//   - internal/script has the scripts (lua/state.lua describes the keys of a partition, and
//     lua/sessions.lua those of its sessions) and puts them together as a partition needs them:
//     those of a plain queue contain nothing about sessions,
//   - internal/record encodes messages,
//   - internal/keyspace names the keys.
//
// The files of this package refer to each other in one direction. Each file uses only what the
// files before it in this list declare:
//
//   - calls.go (the work of calls that share an exchange), leases.go, quota.go,
//   - shard.go (what the gateway keeps for a partition in use), recents.go, store.go,
//   - delivery.go, partition.go, receipt.go (how scripts are run),
//   - settle.go, lock.go, sessions.go, browse.go,
//   - counts.go, history.go, clear.go, export.go, import.go,
//   - handover.go, append.go, publish.go, commit.go,
//   - open.go.
//
// A topic's partition and those of its subscriptions share a hash tag, so a publication with all
// its copies is one script. A body that several copies share is stored once
// (lua/shared_bodies.lua).
//
// Delivery is at least once. A call whose answer was lost is sent again for up to Options.Patience,
// and takes effect once (receipt.go). If the server stays away for longer, the caller gets Busy
// although the messages may have been stored. If the caller sends them again, only duplicate
// detection prevents a second copy.
package redis
