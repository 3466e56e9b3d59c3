// Programs that developers run: they need what the gateway does not. It requires the gateway's
// module in this repository.
module github.com/crosstown-mq/crosstown/gateway/tools

go 1.26.0

replace github.com/crosstown-mq/crosstown => ../..

require (
	github.com/crosstown-mq/crosstown v0.0.0-00010101000000-000000000000
	golang.org/x/tools v0.52.0
)

require (
	golang.org/x/mod v0.42.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
