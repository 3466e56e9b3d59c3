// Package file is the embedded, durable store: one gateway, one directory, no separate server. It
// is the store in memory with a journal that makes changes durable, so it gives the same answers as
// the memory engine.
// Package journal encodes the effects of calls (see state.Effect) for the log of package wal: as
// frames of effects, records of the messages to which effects refer, and snapshots. These rules say
// what waits for what:
//
//   - An answer that acknowledges waits until everything that was in the log when its call
//     unlocked the partition is as durable as Options.Sync promises. Locking and renewing do not
//     wait.
//   - A delivery waits until the records of its messages are durable.
//   - A message is refused before it is stored if the log has no room for it. On a full disk,
//     receiving and settling continue.
//
// Messages beyond Options.Memory are not kept in memory. A delivery reads them from the log after
// it has unlocked the partition.
// The store writes a snapshot when the log has grown enough, and in Close. Writing it finds out
// which segments still have records of messages. The other segments are removed. Segments with few
// such records are compacted: the records are appended again, as normal effects, so that the next
// snapshot finds the segments empty.
package file
