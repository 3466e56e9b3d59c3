// Package entities has the commands about entities and namespaces: queue, topic, subscription, rule and
// namespace. They use the management API, and the gateway's own API for namespaces and tests of rules.
package entities
