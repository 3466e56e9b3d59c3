// Package entities is the commands about entities and namespaces: queue, topic, subscription, rule and namespace. They
// use the management API, and that of the gateway for namespaces and tests of rules.
package entities
