// Package host runs plugins: it launches each as a process of its own, watches and restarts it, and
// offers its services as core.Router and core.Serializer values that outlive any process.
//
// Concurrent callers' questions share the frames of one stream per plugin: the first is sent at
// once, and those that arrive while maxFrames frames are in flight go into the next frame. Each
// call gets its own answer or an error, never another's, and no question is sent twice: a caller
// may ask again.
//
// Whatever a plugin does affects its callers alone. A process that ends, sends what the contract
// does not allow, fails its health check or stops answering is killed with all that it started, and
// another is launched after a pause that grows. After several failures in a row the plugin is off
// for longer, and calls are refused at once; while it is being restarted they wait, within their
// time.
package host
