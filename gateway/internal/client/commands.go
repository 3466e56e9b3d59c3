package client

import (
	"github.com/spf13/cobra"
)

// Commands returns the client's commands, whose defaults come from an
// environment of NAME=VALUE entries.
func Commands(environ []string) []*cobra.Command {
	return []*cobra.Command{
		sendCommand(environ), receiveCommand(environ), peekCommand(environ), recordCommand(environ), replayCommand(environ), explainCommand(environ),
		queueCommand(environ), topicCommand(environ), subscriptionCommand(environ), ruleCommand(environ), pluginCommand(environ),
		importCommand(environ), exportCommand(environ), diffCommand(environ), migrateCommand(environ),
		namespaceCommand(environ), clockCommand(environ), faultCommand(environ), remoteCommand(environ),
		connectionCommand(environ), sessionCommand(environ),
	}
}
