// Package test contains the commands that help to test an application: clock, fault and bench.
package test
