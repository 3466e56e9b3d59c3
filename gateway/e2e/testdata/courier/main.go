// Courier is a plugin that obeys the subject of a message. It writes its process id to the file in
// its first argument, and does not start while a file of that name and .stop exists.
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

// tell writes a file atomically: readers find all of the text, or the previous one.
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
