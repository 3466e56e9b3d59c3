package journal

import (
	"errors"
	"fmt"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/store/file/internal/wal"
)

// refusal gives an error of the log the code that clients are answered.
func refusal(err error) error {
	var full *wal.FullError
	var failed *wal.FailedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &full):
		return core.Refuse(core.Busy, "The gateway's disk is full: it takes no more messages until there is room. Receive messages, or free space.")
	case errors.Is(err, wal.ErrTooLarge):
		return core.Refuse(core.TooLarge, "What is sent at once is larger than the store takes: send fewer or smaller messages at a time.")
	case errors.As(err, &failed), errors.Is(err, wal.ErrClosed):
		return fmt.Errorf("file store: %w: %w", core.Busy, err)
	default:
		return fmt.Errorf("file store: %w", err)
	}
}
