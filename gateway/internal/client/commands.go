package client

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/crosstown-mq/crosstown/gateway/internal/client/messages"
)

// The groups of commands in the help of crosstown.
const (
	Messages = "messages"
	Entities = "entities"
	Operate  = "operate"
	Move     = "move"
	Test     = "test"
	SetUp    = "set up"
)

// Groups returns the groups with their titles, in the order of the help.
func Groups() []*cobra.Group {
	return []*cobra.Group{
		{ID: Messages, Title: "Messages:"},
		{ID: Entities, Title: "Entities:"},
		{ID: Operate, Title: "Run and operate a gateway:"},
		{ID: Move, Title: "Move in and out:"},
		{ID: Test, Title: "Test:"},
		{ID: SetUp, Title: "Set up:"},
	}
}

// In puts commands into a group.
func In(group string, commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.GroupID = group
	}
	return commands
}

// Commands returns the client's commands, whose defaults come from an
// environment of NAME=VALUE entries.
func Commands(environ []string) []*cobra.Command {
	return slices.Concat(
		In(Messages, messages.Send(environ), messages.Receive(environ), messages.Peek(environ), messages.Tail(environ), messages.Request(environ), messages.Reply(environ),
			messages.DeadLetter(environ), messages.Deferred(environ), messages.Scheduled(environ), messages.Record(environ), messages.Replay(environ), messages.Explain(environ)),
		In(Entities, queueCommand(environ), topicCommand(environ), subscriptionCommand(environ), ruleCommand(environ), namespaceCommand(environ)),
		In(Operate, topCommand(environ), connectionCommand(environ), sessionCommand(environ), pluginCommand(environ), remoteCommand(environ)),
		In(Move, importCommand(environ), exportCommand(environ), diffCommand(environ), migrateCommand(environ)),
		In(Test, clockCommand(environ), faultCommand(environ), benchCommand(environ)),
		In(SetUp, contextCommand(environ), tokenCommand(environ)),
	)
}
