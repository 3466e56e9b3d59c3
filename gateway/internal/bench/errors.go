package bench

import (
	"errors"
	"fmt"

	"github.com/Azure/go-amqp"
)

// plain returns a broker's refusal in one line, and other errors unchanged.
func plain(err error) error {
	if e, ok := errors.AsType[*amqp.Error](err); ok {
		return fmt.Errorf("%s: %s", e.Condition, e.Description)
	}
	return err
}
