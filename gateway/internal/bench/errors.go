package bench

import (
	"errors"
	"fmt"

	"github.com/Azure/go-amqp"
)

// plain puts a broker's refusal into one line; it returns other errors unchanged.
func plain(err error) error {
	if e, ok := errors.AsType[*amqp.Error](err); ok {
		return fmt.Errorf("%s: %s", e.Condition, e.Description)
	}
	return err
}
