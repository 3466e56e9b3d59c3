// Package journal stores the effects of calls on a store (package state) in a log (package wal). It
// encodes messages as records and effects as frames, and repeats the effects when the store is
// opened. It also writes snapshots, which consist of effects too. It removes segments that are not
// needed, and compacts others.
package journal
