// Package test contains commands for testing applications: clock, fault and bench.
package test
