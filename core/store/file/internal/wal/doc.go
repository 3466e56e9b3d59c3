// Package wal is the log of the file engine: frames of effects, in the order in which they were
// appended, stored in segments in a directory, together with the records (messages) to which the
// effects refer, and with snapshots. It knows nothing about the meaning of effects and records.
//
// # Use
//
//	l, err := wal.Open(fs, dir, wal.Options{})        // takes the lock, repairs a torn end
//	s, err := l.Snapshots()                           // newest first: load one that is sound
//	err = l.Replay(s.From, func(f wal.Frame) error)   // then apply what follows it
//
//	rec := wal.NewRecord(head, body)                  // checksums; before the mutex is locked
//	r, err := l.Reserve(ctx, size)                    // memory and disk space; before the mutex, too
//	// partition's mutex
//	_, end := l.Append(effects, recs)                 // never waits; recs[i].Ref says where each is
//	// end of partition's mutex
//	r.Release()
//	err = l.Wait(ctx, end)                            // as durable as Options.Sync promises
//
//	head, body, err := l.Read(recs[0].Ref)            // from memory if recent, else from the file
//
// Positions are bytes: a segment's id and an offset in it. They never change: when Open writes
// something again, it keeps its place, so effects may refer to records of earlier frames by Ref.
//
// # Directory
//
//	LOCK                 exclusive lock; its content, the process id, is for people
//	00000001.log         log segment, named by its id in hexadecimal; ids rise, with gaps
//	00000002.body        body segment: one record of its own, written by WriteBody
//	00000007.snapshot    snapshot
//	*.tmp                what a stopped process had not finished; Open removes it
//	*.damaged            what Open with Repair replaced
//
// All integers are little endian. CRC is CRC-32C (Castagnoli). Frames and records begin at
// multiples of 8 bytes; the bytes up to the next multiple are 0.
//
// # Segment header, 64 bytes
//
//	 0  8  magic "xtownlog" (log) or "xtownbod" (body)
//	 8  4  format version, 1
//	12  4  id of this segment
//	16  4  id of the previous log segment, 0 for the first
//	20  4  end of the previous log segment: the offset after its last frame
//	24  8  id of the log, a random number that all its segments and snapshots have
//	32  8  position up to which the log was known to be synced when the segment was made
//	40  8  time when the segment was made, ms since the Unix epoch
//	48 12  0
//	60  4  CRC of bytes 0 to 59
//
// # Frame: header of 32 bytes, effects, records
//
//	 0  4  CRC of bytes 4 to 31, then the segment's id and the frame's offset (4 bytes each)
//	 4  1  kind: 1 effects, 2 seal (the last of its segment), 3 close (the log was closed
//	       cleanly), 4 gap (Repair put it in place of damage)
//	 5  3  0
//	 8  4  length of the effects
//	12  4  CRC of the effects
//	16  4  length of the records, with their headers and padding; in a gap the bytes replaced
//	20  4  number of records
//	24  8  position up to which the log was known to be synced when the frame was written
//
// The effects follow, padded to a multiple of 8, and then each record, also padded. The header CRC
// covers the frame's position, so an old frame that an earlier use of the same disk block left
// there is not mistaken for one of this segment. A header of 32 zero bytes is the end: with Sync
// Always a segment is filled with zeros some way ahead, because writing within a file's length
// costs half as much as extending it.
//
// # Record: header of 16 bytes, head, body
//
//	 0  4  CRC of bytes 4 to 15, the head and the body
//	 4  4  length of the head
//	 8  4  length of the body
//	12  4  0
//
// A body segment is a segment header and one record at offset 64.
//
// # Snapshot: header of 64 bytes, blocks, trailer
//
//	 0  8  magic "xtownsnp"
//	 8  4  format version, 1
//	12  4  id of the snapshot
//	16  8  position from which the log is replayed on it
//	24  8  end of the log when it was written: synced before the snapshot got its name
//	32  8  time when it was made, ms since the Unix epoch
//	40  8  id of the log
//	48 12  0
//	60  4  CRC of bytes 0 to 59
//
// Each block is 4 bytes length (1 to 1 MiB), 4 bytes CRC of the id, the block's number (4 bytes
// each), and the content; then the content. The trailer is a block of length 0 whose CRC covers
// the id, the number of blocks and the sum of their lengths (8 bytes).
//
// # What is damage
//
// A loss of power leaves a torn end: anything written since the last sync may be missing. So Open
// cuts the log at the first unsound frame if no sound header, frame or snapshot says that the log
// was synced beyond it, and reports the cut to its logger. Something synced but unsound is damage:
// Open and Replay return a *DamageError, and Open with Repair replaces it by a gap and continues.
//
// A process that stopped without Close may have stopped because a sync failed, and then the kernel
// may show pages that the disk does not have. So Open writes everything beyond the position known
// to be synced again, into new files that get the old names once they are synced.
package wal
