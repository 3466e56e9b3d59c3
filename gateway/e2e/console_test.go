package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// screenshotsVariable names a directory that the console's pictures are written to.
const screenshotsVariable = "E2E_SCREENSHOTS"

// The gateway is the console's own, since it shows what all others do there.
func TestTheConsoleIsAtHomeInABrowser(t *testing.T) {
	t.Parallel()
	e := &env{T: t, gw: own(t, "memory"), plain: true}
	variables := []string{"STORY_LISTENER=" + e.gw.connection(listenOnly, listenKey, e.plain)}
	if dir := os.Getenv(screenshotsVariable); dir != "" {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			t.Fatal(err)
		}
		variables = append(variables, "STORY_SCREENSHOTS="+absolute)
	}
	e.browser("console", variables...)
}
