// To-router is a plugin that routes messages by their To and a table in a file that may change.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: to-router TABLE.json")
		os.Exit(2)
	}
	t, err := open(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go t.follow(context.Background(), time.Second)
	sdk.Serve(plugin(t))
}

func plugin(t *table) sdk.Plugin {
	return sdk.Plugin{
		Name: "to-router", Version: "1.0.0",
		OnSend: func(_ context.Context, m *sdk.Message) (sdk.Verdict, error) {
			switch queues := t.lookup(m.To); {
			case m.To == "":
				return sdk.Accept, nil // without a destination
			case len(queues) == 0:
				return sdk.DeadLetter("UnknownDestination", fmt.Sprintf("No entry of the table matches %q.", m.To)), nil
			default:
				return sdk.To(queues...), nil
			}
		},
	}
}
