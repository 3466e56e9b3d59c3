// Package journal keeps what calls do to a store (package state) in a log (package wal): it encodes
// messages as records and effects as frames, and does them again when the store is opened. It writes
// snapshots, which consist of effects too, removes segments that nothing needs, and compacts others.
package journal
