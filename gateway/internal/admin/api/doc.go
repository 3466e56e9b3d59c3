// Package api defines the paths, requests and answers of the administration API, which the gateway
// serves over HTTP and the command line calls. All bodies except the metrics are JSON.
package api

// Paths of the API. Names of entities never begin with a dollar sign. A path that ends in a slash
// requires the name of an entity after it.
const (
	MetricsPath    = "/$crosstown/metrics"
	CountersPath   = "/$crosstown/counters/"
	ExplainPath    = "/$crosstown/explain/"
	PurgePath      = "/$crosstown/purge/" // removes the messages of an entity or sub-queue
	NamespacesPath = "/$crosstown/namespaces"
	RemotesPath    = "/$crosstown/remotes"
	PluginsPath    = "/$crosstown/plugins"
	PipelinesPath  = "/$crosstown/pipelines"
	BackupPath     = "/$crosstown/backup" // a tar of the file store's files; parameter limit-rate: bytes per second
)

type Error struct {
	Error    string `json:"error"`
	Tracking string `json:"tracking"` // id of the error in the gateway's log
}

type ReloadRequest struct {
	SHA256 string `json:"sha256,omitempty"` // checksum of the new program; "" for the configured one
}

type Purged struct {
	Purged int `json:"purged"`
}
