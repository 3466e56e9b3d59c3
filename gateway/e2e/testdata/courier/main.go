// Courier is a plugin that does what the subject of a message says. It writes
// its process id to the file that its first argument names, and does not start
// while there is one of the name with .stop behind it.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

func main() {
	if _, err := os.Stat(os.Args[1] + ".stop"); err == nil {
		fmt.Fprintln(os.Stderr, "told not to start")
		os.Exit(1)
	}
	if err := tell(os.Args[1], strconv.Itoa(os.Getpid())); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	sdk.Serve(sdk.Plugin{Name: "courier", OnSend: obey})
}

// tell writes a file in one step: a reader finds all of the text, or what was
// there before.
func tell(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func obey(_ context.Context, m *sdk.Message) (sdk.Verdict, error) {
	if m.Stage == sdk.Filter {
		if m.Parameters["1"] != m.Subject {
			return sdk.Drop("it was not asked for"), nil
		}
		return sdk.Accept, nil
	}
	verb, object, _ := strings.Cut(m.Subject, " ")
	switch verb {
	case "drop":
		return sdk.Drop("as asked"), nil
	case "dead":
		return sdk.DeadLetter(object, "as asked"), nil
	case "refuse":
		return sdk.Refuse(object, "as asked"), nil
	case "to":
		return sdk.To(strings.Fields(object)...), nil
	case "also":
		return sdk.Also(strings.Fields(object)...), nil
	case "set":
		m.Properties["by"] = m.Parameters["as"]
	}
	return sdk.Accept, nil
}
