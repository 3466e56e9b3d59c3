// Package storetest tests what every store must do. Run tests one behaviour at a time. Differential
// runs random operations on two stores and compares every answer, and which callers are notified,
// so that an engine cannot deviate from the model. Play does the same with operations from bytes,
// for fuzzing. The stores under test must use the Clock, with which the tests set the time. Each
// file has the tests of one behaviour.
package storetest
