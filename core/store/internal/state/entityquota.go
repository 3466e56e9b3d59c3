package state

import (
	"github.com/crosstown-mq/crosstown/core"
)

// isFull reports whether the partition has reached its quota.
func (t *txn) isFull() bool { return t.MaxBytes > 0 && t.bytes >= t.MaxBytes }

// full is the refusal of what would be stored in a partition that is full.
func (t *txn) full() error {
	return core.Refuse(core.QuotaExceeded,
		"The maximum entity size has been reached or exceeded. Size of entity in bytes: %d, max entity size in bytes: %d.",
		t.bytes, t.MaxBytes)
}
