// Package storetest says what every store must show. Run tells its stories, one
// behaviour each. Differential plays random operations on two stores and
// compares every answer, and whom the doorbells wake, so that an engine cannot
// drift from the model; Play does the same with operations read from bytes, for
// fuzzing.
//
// Both set the time by a Clock, which the stores under test must use.
package storetest
