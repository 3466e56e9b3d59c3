//go:build race

package e2e

// raceEnabled has the gateway built with the race detector too.
const raceEnabled = true
