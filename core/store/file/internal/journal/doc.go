// Package journal stores the effects of calls on a store (package state) in a log (package wal). It
// encodes messages as records, and effects as frames. It repeats the effects when the store is
// opened. It writes snapshots, removes segments that are no longer needed, and compacts others.
package journal
