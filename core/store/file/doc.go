// Package file is the embedded, durable store: one gateway, one directory, no separate server. It
// is the store in memory with a journal, so it gives the same answers as the memory engine. This
// package makes changes durable.
// Package journal encodes the effects of calls (see state.Effect) for the log of package wal: as
// frames of effects, records of messages to which effects refer, and snapshots. These rules say
// what waits for what:
//
//   - An answer that acknowledges waits until everything that was in the log when its call left the
//     partition is as durable as Options.Sync promises. Locks are given and extended without waiting.
//   - A delivery waits for the records of its messages.
//   - A message is refused before it is stored if the log has no room for it. On a full disk,
//     receiving and settling continue.
//
// Messages beyond Options.Memory are not kept in memory. They are read from the log when they are
// delivered, after the partition's mutex is released.
// A snapshot is written when the log has grown enough, and by Close. Writing it finds the segments
// that still have records of messages. Segments without such records are removed. Segments with few
// of them are compacted: these records are appended again, as normal effects, so that the next
// snapshot finds the segments empty.
package file
