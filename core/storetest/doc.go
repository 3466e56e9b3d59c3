// Package storetest tests what every store must do. Run tests one behaviour at a time. Differential
// runs random operations on two stores and compares every answer, and which callers the doorbells
// wake, so that an engine cannot deviate from the model; Play does the same with operations read
// from bytes, for fuzzing.
//
// A file contains the tests of one behaviour.
//
// Both set the time by a Clock, which the stores under test must use.
package storetest
