// Package entities has the commands about entities and namespaces: queue, topic, subscription,
// rule, schedule and namespace. They use the management API and, for namespaces, schedules and
// tests of rules, the gateway's own API.
package entities
