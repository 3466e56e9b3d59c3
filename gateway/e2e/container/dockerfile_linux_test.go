package container

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// dockerfile is what the last stage of the Dockerfile says, and how the stage
// before builds the gateway.
type dockerfile struct {
	build       string      // the command
	copies      [][2]string // what goes where, of files that are not built
	environment []string
	exposed     []string
	user        string
	volume      string
	entrypoint  []string
	health      []string
	stop        string
}

func readDockerfile(t *testing.T, path string) (d dockerfile) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	list := func(text string) (words []string) {
		if err := json.Unmarshal([]byte(text), &words); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		return words
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(string(data), "\\\n", " "), "\n") {
		instruction, rest, _ := strings.Cut(line, " ")
		words := strings.Fields(rest)
		switch instruction {
		case "FROM":
			d = dockerfile{build: d.build}
		case "RUN":
			d.build = rest
		case "COPY":
			if !strings.HasPrefix(rest, "--") {
				d.copies = append(d.copies, [2]string{words[0], words[1]})
			}
		case "ENV":
			d.environment = append(d.environment, words...)
		case "EXPOSE":
			d.exposed = words
		case "USER":
			d.user = rest
		case "VOLUME":
			d.volume = rest
		case "ENTRYPOINT":
			d.entrypoint = list(rest)
		case "HEALTHCHECK":
			_, command, _ := strings.Cut(rest, "CMD ")
			d.health = list(command)
		case "STOPSIGNAL":
			d.stop = rest
		}
	}
	return d
}
