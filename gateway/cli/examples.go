package cli

import (
	"github.com/spf13/cobra"
)

var examples = map[string]string{
	"crosstown serve":               "--config crosstown.yaml",
	"crosstown test-server":         "--config queues.yaml",
	"crosstown version":             "",
	"crosstown queue create":        "orders --lock-duration 30s --max-delivery-count 5",
	"crosstown queue list":          "--json",
	"crosstown queue show":          "orders",
	"crosstown queue update":        "orders --max-delivery-count 5",
	"crosstown queue delete":        "orders",
	"crosstown topic create":        "events --default-message-time-to-live 1h",
	"crosstown topic list":          "--json",
	"crosstown topic show":          "events",
	"crosstown topic update":        "events --default-message-time-to-live 1h",
	"crosstown topic delete":        "events",
	"crosstown subscription create": `events eu --sql "region = 'eu' AND amount > 100"`,
	"crosstown subscription list":   "events",
	"crosstown subscription show":   "events eu",
	"crosstown subscription update": "events eu --max-delivery-count 5",
	"crosstown subscription delete": "events eu",
	"crosstown rule create":         `events eu large --sql "amount > 100" --action "SET priority = 'high'"`,
	"crosstown rule list":           "events eu",
	"crosstown rule show":           "events eu large",
	"crosstown rule update":         `events eu large --sql "amount > 200"`,
	"crosstown rule delete":         "events eu large",
	"crosstown schedule create":     `reports --cron "0 6 * * MON-FRI" --zone Europe/Berlin --entity orders --body hello`,
	"crosstown schedule update":     "reports --cron @daily",
	"crosstown schedule list":       "--json",
	"crosstown schedule show":       "reports",
	"crosstown schedule delete":     "reports",
	"crosstown namespace list":      "--json",
	"crosstown namespace show":      "suite-17",
	"crosstown namespace rotate":    "suite-17 RootManageSharedAccessKey",
	"crosstown namespace reset":     "suite-17 --yes",
	"crosstown namespace delete":    "suite-17 --yes",
	"crosstown context list":        "",
	"crosstown context current":     "",
	"crosstown context use":         "staging",
	"crosstown context remove":      "staging",
	"crosstown clock show":          "--namespace suite-17",
	"crosstown clock freeze":        "--namespace suite-17",
	"crosstown clock advance":       "5m --namespace suite-17",
	"crosstown clock set":           "2031-01-02T15:04:05Z --namespace suite-17",
	"crosstown clock resume":        "--namespace suite-17",
	"crosstown fault list":          "--namespace suite-17",
	"crosstown fault remove":        "3f9a2c --namespace suite-17",
	"crosstown fault clear":         "--namespace suite-17",
	"crosstown plugin list":         "--json",
	"crosstown plugin check":        "./router -- --verbose",
	"crosstown plugin reload":       "router",
	"crosstown plugin proto":        "",
	"crosstown remote list":         "--json",
	"crosstown store inspect":       "/var/lib/crosstown/messages",
	"crosstown store verify":        "/var/lib/crosstown/messages",
}

func Exemplify(c *cobra.Command) {
	for _, below := range c.Commands() {
		Exemplify(below)
	}
	if args, ok := examples[c.CommandPath()]; ok {
		c.Example = "  " + c.CommandPath()
		if args != "" {
			c.Example += " " + args
		}
	}
}
