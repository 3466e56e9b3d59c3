// Package api defines the paths, requests and answers of the administration API, which the gateway
// serves over HTTP and the command line calls. All bodies but the metrics are JSON.
package api

// The paths of the API. No entity has a name that begins with a dollar sign. A path with a slash at
// its end is followed by the name of an entity.
const (
	MetricsPath    = "/$crosstown/metrics"
	CountersPath   = "/$crosstown/counters/"
	ExplainPath    = "/$crosstown/explain/"
	PurgePath      = "/$crosstown/purge/" // of an entity or sub-queue
	NamespacesPath = "/$crosstown/namespaces"
	RemotesPath    = "/$crosstown/remotes"
	PluginsPath    = "/$crosstown/plugins"
	PipelinesPath  = "/$crosstown/pipelines"
	BackupPath     = "/$crosstown/backup" // a tar of the file store's files; parameter limit-rate: bytes per second
)

type Error struct {
	Error    string `json:"error"`
	Tracking string `json:"tracking"` // the id under which the log has the error
}

type ReloadRequest struct {
	SHA256 string `json:"sha256,omitempty"` // checksum of the new program; "" for the configured one
}

type Purged struct {
	Purged int `json:"purged"`
}
