package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/cli/entities"
	"github.com/crosstown-mq/crosstown/gateway/cli/messages"
	"github.com/crosstown-mq/crosstown/gateway/cli/move"
	"github.com/crosstown-mq/crosstown/gateway/cli/operate"
	"github.com/crosstown-mq/crosstown/gateway/cli/setup"
	"github.com/crosstown-mq/crosstown/gateway/cli/test"
)

const (
	Messages = "messages"
	Entities = "entities"
	Operate  = "operate"
	Move     = "move"
	Test     = "test"
	SetUp    = "set up"
)

func Groups() []*cobra.Group {
	return []*cobra.Group{
		{ID: Messages, Title: "Messages:"},
		{ID: Entities, Title: "Entities:"},
		{ID: Operate, Title: "Run and operate a gateway:"},
		{ID: Move, Title: "Move entities and messages in and out:"},
		{ID: Test, Title: "Test:"},
		{ID: SetUp, Title: "Set up:"},
	}
}

func In(group string, commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.GroupID = group
	}
	return commands
}

// Commands returns all client commands. environ (NAME=VALUE) contains defaults for their flags.
func Commands(environ []string) []*cobra.Command {
	return slices.Concat(
		In(Messages, messages.Send(environ), messages.Receive(environ), messages.Peek(environ), messages.Tail(environ),
			messages.DeadLetter(environ), messages.Deferred(environ), messages.Scheduled(environ), messages.Unlock(environ), messages.Record(environ), messages.Replay(environ), messages.Explain(environ), messages.Schema(environ)),
		In(Entities, entities.Queue(environ), entities.Topic(environ), entities.Subscription(environ), entities.Rule(environ), entities.Schedule(environ), entities.Namespace(environ)),
		In(Operate, operate.Top(environ), operate.Connection(environ), operate.Session(environ), operate.Plugin(environ), operate.Remote(environ), operate.Health(environ), operate.Store(environ)),
		In(Move, move.Import(environ), move.Export(environ), move.Diff(environ), move.Migrate(environ)),
		In(Test, test.Clock(environ), test.Fault(environ), test.Bench(environ)),
		In(SetUp, setup.Doctor(environ), setup.Context(environ), setup.Token(environ), setup.Config(environ), setup.CA(environ)),
	)
}
