// Package entities has the commands queue, topic, subscription, rule, schedule and namespace. They
// use the management API of Service Bus. For namespaces, schedules and tests of rules, they use the
// gateway's own API.
package entities
