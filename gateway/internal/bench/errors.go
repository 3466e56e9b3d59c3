package bench

import (
	"errors"
	"fmt"

	"github.com/Azure/go-amqp"
)

// plain puts what a broker refused with into one line; other errors pass.
func plain(err error) error {
	if e, ok := errors.AsType[*amqp.Error](err); ok {
		return fmt.Errorf("%s: %s", e.Condition, e.Description)
	}
	return err
}
