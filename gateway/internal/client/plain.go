package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// explained is an error in words for a person.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.err }

// codes is how the SDK begins its texts.
var codes = strings.NewReplacer("(connlost): ", "", "(timeout): ", "", "(locklost): ", "", "(closed): ", "", "(notfound): ", "", "(unauthorized): ", "")

// explain says what a gateway refused in its own words, without what the SDKs wrap around them, and adds
// the remedy to the errors that a newcomer meets first. What is explained already stays as it is.
func (t *target) explain(err error) error {
	if err == nil {
		return nil
	}
	_, done := errors.AsType[*explained](err)
	_, own := errors.AsType[UsageError](err)
	if done || own || isNothing(err) {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return &explained{"interrupted", err}
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		err = e // without the request that it came to
	}
	coded, ok := errors.AsType[*azservicebus.Error](err)
	if text := said(err); ok && text != "" && (coded.Code == azservicebus.CodeConnectionLost || coded.Code == azservicebus.CodeTimeout) {
		return &explained{text, err} // the SDK takes a refusal that it does not know for a lost connection
	}
	err = t.reason(err)
	if e, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return &explained{fmt.Sprintf("%s answers %s: it is neither a gateway nor Service Bus: check the host and port of the connection string", t.Host, e.RawResponse.Status), err}
	}
	return &explained{codes.Replace(err.Error()), err}
}

// descriptionIn is the description in the text of an AMQP error that the SDK has made one of its own.
func descriptionIn(text string) string {
	_, description, ok := strings.Cut(text, ", Description: ")
	if !ok {
		_, description, _ = strings.Cut(text, "and description: ")
	}
	description, _, _ = strings.Cut(description, ", Info: map[")
	return trim(description)
}
