package command

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/bridges/https"
	"github.com/crosstown-mq/crosstown/bridges/remote"
)

type UsageError struct{ problem error }

func (e UsageError) Error() string { return e.problem.Error() }

func (e UsageError) Unwrap() error { return e.problem }

func Usage(problems error) error {
	if problems == nil {
		return nil
	}
	return UsageError{problems}
}

func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// A Nothing is the error of a command that found nothing, such as no message. Its exit code is 4.
type Nothing struct{ text string }

func (e Nothing) Error() string { return e.text }

func Nothingf(format string, args ...any) error { return Nothing{fmt.Sprintf(format, args...)} }

func IsNothing(err error) bool {
	_, ok := errors.AsType[Nothing](err)
	return ok
}

const listHint = "list the names with: crosstown queue list, topic list, subscription list TOPIC, or rule list TOPIC SUBSCRIPTION"

type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.err }

// Explain makes errors of requests readable. It removes texts that client libraries add, and adds a
// remedy for common errors. It does not change an error that Explain returned earlier.
func (t *Target) Explain(err error) error {
	if err == nil {
		return nil
	}
	_, done := errors.AsType[*explained](err)
	_, own := errors.AsType[UsageError](err)
	if done || own || IsNothing(err) {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return &explained{"interrupted", err}
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		err = e // omit the outer text, which describes the request
	}
	return &explained{t.reason(err).Error(), err}
}

func (t *Target) policyHint() string {
	return "check the policy of the connection string: its name, its key and its rights" + t.From()
}

func (t *Target) From() string {
	if t.origin == "" {
		return ""
	}
	return " (" + t.origin + ")"
}

func (t *Target) reason(err error) error {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("the certificate of %s%s is not trusted: %w: specify the CA's certificate with --ca FILE (crosstown ca prints the development CA)", t.Host, t.From(), err)
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range several.Unwrap() {
			all = append(all, t.Explain(e))
		}
		return errors.Join(all...)
	}
	if refused, ok := errors.AsType[*https.StatusError](err); ok {
		text := strings.Replace(err.Error(), refused.Text, Trim(refused.Text), 1)
		if !refused.Told && refused.Status < http.StatusInternalServerError {
			return fmt.Errorf("%s: the server is neither a gateway nor Service Bus: check the host and port of the connection string", text)
		}
		return t.withRemedy(refused.Status, text)
	}
	if status, why, ok := remote.Refusal(err); ok {
		if status != http.StatusNotFound {
			status = http.StatusUnauthorized
		}
		return t.withRemedy(status, Trim(why))
	}
	_, unreachable := errors.AsType[*net.OpError](err)
	if lost, ok := errors.AsType[*amqp.ConnError](err); unreachable || ok && lost.RemoteErr == nil {
		return fmt.Errorf("cannot connect to %s%s: %w: run crosstown there to start a gateway, or specify another gateway with --connection-string or --context", t.Host, t.From(), err)
	}
	if refused, ok := errors.AsType[*amqp.Error](err); ok {
		return t.withRemedy(statusOf[refused.Condition], cmp.Or(Said(err), err.Error()))
	}
	return err
}

var statusOf = map[amqp.ErrCond]int{amqp.ErrCondNotFound: http.StatusNotFound, amqp.ErrCondUnauthorizedAccess: http.StatusUnauthorized}

func (t *Target) withRemedy(status int, text string) error {
	switch status {
	case http.StatusNotFound:
		return fmt.Errorf("%s: %s", text, listHint)
	case http.StatusUnauthorized:
		return fmt.Errorf("%s: %s", text, t.policyHint())
	}
	return errors.New(text)
}

func Said(err error) string {
	if refused, ok := errors.AsType[*amqp.Error](err); ok {
		return Trim(refused.Description)
	}
	return ""
}

// Trim removes parts of a refusal that only programs need: sub-code, tracking id and link.
func Trim(text string) string {
	if strings.HasPrefix(text, "SubCode=") {
		_, text, _ = strings.Cut(text, ". ")
	}
	text, _, _ = strings.Cut(text, " TrackingId:")
	text, _, _ = strings.Cut(text, " To know more visit ")
	return strings.TrimSuffix(text, ".")
}
