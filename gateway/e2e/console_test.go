package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// screenshotsVariable names a directory that the console's pictures are written to.
const screenshotsVariable = "E2E_SCREENSHOTS"

func TestTheConsoleIsAtHomeInABrowser(t *testing.T) {
	tell(t, func(e *env) {
		variables := []string{"STORY_LISTENER=" + e.gw.connection(listenOnly, listenKey, e.plain)}
		if dir := os.Getenv(screenshotsVariable); dir != "" {
			absolute, err := filepath.Abs(dir)
			if err != nil {
				e.Fatal(err)
			}
			variables = append(variables, "STORY_SCREENSHOTS="+absolute)
		}
		e.browser("console", variables...)
	}, "memory/tcp")
}
