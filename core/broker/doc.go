// Package broker contains the use cases. It checks rights and messages, chooses partitions, and
// caches entities. It implements core.Broker and core.Admin on any core.Store. What it keeps in
// memory may be lost.
// The cache has each entity at one revision. Run updates the cache, and everything that is open on
// the entities. Each package below internal has one subject: entity (an entity at one revision),
// delivery (receivers and sessions), topics (subscriptions and rules), pipeline (routers in front
// of entities), forward (moves between entities) and audit (histories). gateway/imports_test.go
// restricts their imports; none of them imports this package.
// A message to a topic is evaluated with the rules that this gateway knows, and published with
// their version. If the version is outdated, the store refuses the publication, and the message is
// evaluated again.
// Messages to an entity with a pipeline pass through routers first: see pipeline.Stages and
// pipeline.Result. A transaction collects operations, checks each as far as possible, and commits
// them in one call of the store.
// Rights are checked on the address in the client's form. A grant for a queue covers its sub-queues
// and management nodes, while a grant for the management node covers only calls to that node. A
// sub-queue has its queue's status.
// A file is one use case. All use cases share Broker and its cache, so they are one package.
package broker
