package interop

import "testing"

func TestCloudEvents(t *testing.T) {
	interop(t)
	onEachEngine(t, goModule(t, "cloudevents"))
}

func TestFunctionsTrigger(t *testing.T) {
	interop(t)
	node, npm := need(t, "node"), need(t, "npm")
	dir := installed(t, "functions", func(dir string) error { return in(dir, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund") })
	onEachEngine(t, func(s *story) { s.run(dir, []string{"NODE_EXTRA_CA_CERTS=" + s.ca}, node, "story.mjs") })
}
