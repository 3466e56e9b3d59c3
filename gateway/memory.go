package main

import (
	"log/slog"
	"runtime/debug"

	"github.com/crosstown-mq/crosstown/bridges/budget"
	"github.com/crosstown-mq/crosstown/gateway/internal/config"
	"github.com/crosstown-mq/crosstown/gateway/internal/memory"
)

// newBudget makes the budget of messages in progress. By default it is a quarter
// of the memory that there is: while a message is stored or delivered there are
// up to three forms of it, as it came, as the store keeps it, and what was not
// collected yet; the rest is for connections and the memory store.
func newBudget(c *config.Config, released func(int64), log *slog.Logger) *budget.Budget {
	available, limited := memory.Available()
	if limited { // have the collector work harder before the container is killed
		debug.SetMemoryLimit(available / 10 * 9)
	}
	limit, err := memory.Parse(c.MessageMemory)
	if err != nil { // it is not set, for it was validated
		limit = max(available/4, leastBudget)
	}
	log.Debug("memory", "available", available, "messages", limit)
	return budget.New(limit, released)
}

// leastBudget is the least default.
const leastBudget = 16 << 20
