// Package host runs plugins: it launches each as a separate process, watches and restarts it, and
// offers its services as core.Router and core.Serializer values that outlive any process.
//
// The requests of concurrent callers share the frames of one stream per plugin. The first request
// is sent immediately. Requests that arrive while maxFrames frames are in progress go into the next
// frame. Each call gets its own answer or an error, and no request is sent twice.
//
// Whatever a plugin does affects only its callers. A process that ends, violates the contract,
// fails its health check or stops answering is killed, together with all processes that it started.
// After a pause, which grows, another process is launched. Calls wait for it, within their time.
// After several failures in a row the plugin is off for longer, and calls are refused immediately.
package host
