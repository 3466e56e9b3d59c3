// Package file is the embedded store that keeps its messages: one gateway, one directory, no
// separate server. It is the store in memory with a journal, so it gives the same answers as the
// memory engine; this package makes the changes durable.
//
// Package journal encodes the effects of calls (see state.Effect) for the log of package wal: frames of
// effects, records of messages to which the effects refer, and snapshots. These rules say what waits for what:
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
// A snapshot is written when the log has grown enough, and at Close. It finds out which segments still contain
// records of messages. Segments without such records are removed, and segments with few are compacted: their
// records are appended again as normal effects, and the next snapshot finds the segments empty.
package file
