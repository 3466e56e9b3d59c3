// Package file is the embedded store that keeps its messages: one gateway, one directory, no
// server beside it. It is the store in memory with a journal, so what it answers is what the memory engine
// answers, and what is here is how that lasts.
//
// Package journal encodes the effects of calls (state.Effect says which) for the log of package wal:
// frames of effects, records of messages that the effects name, and snapshots. What waits for what:
//
//   - An answer that acknowledges waits until everything that was in the log when its call left the
//     partition is as durable as Options.Sync promises. Locks are given and extended without waiting.
//   - A delivery waits for the records of the messages it carries.
//   - A message is refused before it is stored when the log has no room for it; on a full disk
//     receiving and settling continue.
//
// Messages beyond Options.Memory are not kept in memory: they are read from the log when they are
// delivered, after the partition's mutex is released.
//
// A snapshot is written when the log has grown enough, and at Close. It counts which segments still
// have records that messages name. Those without are removed; those with few are compacted: their
// records are appended again, as effects like others, and the next snapshot finds nothing in them.
package file
