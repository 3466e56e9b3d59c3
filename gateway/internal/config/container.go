package config

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The official emulator's container finds its file here, and serves management
// and health on the port that this variable names. What else it is told there
// (ACCEPT_EULA, SQL_SERVER, MSSQL_SA_PASSWORD, SQL_WAIT_INTERVAL)
// has no meaning without its SQL Server.
const (
	containerFile         = "/ServiceBus_Emulator/ConfigFiles/Config.json"
	containerPortVariable = "EMULATOR_HTTP_PORT"
	containerPort         = "5300"
)

// addContainer adds to values what the official emulator's container has by
// default, if they ask to stand in for it: what they set themselves stays. file
// is the emulator's configuration, used where it exists.
func addContainer(values map[string]any, environ []string, file string, r *report) {
	if wanted, err := convertBool(values["emulator"]); err != nil || wanted != true {
		return // of the wrong type: decoding says so
	}
	set := func(name string, v any, source string) {
		if values[name] == nil {
			values[name] = v
			r.origins[name] = origin{source: source}
		}
	}
	set("dev-key-anywhere", true, "--emulator")
	set("require-tls", "off", "--emulator")
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		set("emulator-config", file, "--emulator")
	}
	port, source := Variable(environ, containerPortVariable), containerPortVariable
	switch n, err := strconv.ParseUint(port, 10, 16); {
	case port == "":
		port, source = containerPort, "--emulator"
	case err != nil || n == 0:
		r.addAt(origin{source: source}, "%q is no port: write a number between 1 and 65535", port)
		port = containerPort
	}
	var listen []any
	for _, address := range defaultListen {
		address = strings.TrimPrefix(address, "127.0.0.1")
		if address == ":"+containerPort {
			address = ":" + port
		}
		if !slices.Contains(listen, any(address)) { // a listener speaks everything
			listen = append(listen, address)
		}
	}
	set("listen", listen, source)
}
