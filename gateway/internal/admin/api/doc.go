// Package api defines the paths, requests and answers of the administration API, which the gateway
// serves over HTTP and its command line calls. All bodies are JSON, except for the metrics.
package api

// The paths. No entity has a name that begins with a dollar sign. If a path ends in a slash, the
// name of an entity follows it.
const (
	MetricsPath    = "/$crosstown/metrics"
	CountersPath   = "/$crosstown/counters/"
	ExplainPath    = "/$crosstown/explain/"
	PurgePath      = "/$crosstown/purge/" // of an entity, or of its sub-queue
	NamespacesPath = "/$crosstown/namespaces"
	RemotesPath    = "/$crosstown/remotes"
	PluginsPath    = "/$crosstown/plugins"
	PipelinesPath  = "/$crosstown/pipelines"
	BackupPath     = "/$crosstown/backup" // a tar of the files of a file store; limit-rate is in bytes a second
)

// Error is the answer to a request that is refused.
type Error struct {
	Error    string `json:"error"`
	Tracking string `json:"tracking"` // the id of the error in the gateway's log
}

// ReloadRequest is the body of a POST to a plugin.
type ReloadRequest struct {
	SHA256 string `json:"sha256,omitempty"` // checksum of the new program; "": the configured one
}

// Purged is the answer to a purge.
type Purged struct {
	Purged int `json:"purged"` // messages
}
