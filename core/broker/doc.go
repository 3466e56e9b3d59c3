// Package broker contains the use cases. It checks rights and messages, chooses partitions, and
// keeps entities cached. It implements core.Broker and core.Admin on any core.Store and keeps no
// state that matters in memory.
//
// Entities are cached at one revision; Run keeps the cache, and everything that is open on it, up
// to date. The packages below internal have one subject each: entity (an entity as last read),
// delivery (receivers and sessions), topics (subscriptions and rules), pipeline (routers in front
// of entities), forward (moves between entities) and audit (histories). They import each other only
// in the direction that gateway/imports_test.go allows, and none imports the broker.
//
// A message to a topic is evaluated by the rules of the subscriptions that this gateway knows, and
// published with their version. The store refuses a publication with an older version, and it is
// evaluated again.
//
// Messages to an entity with a pipeline are judged by routers first: see pipeline.Run and
// pipeline.Result. A transaction collects operations, checks each as far as possible, and commits
// them by one call of the store.
//
// Rights are checked on the address as the client spells it: a grant for a queue covers its
// sub-queues and management nodes, while a grant for the management node covers only calls that
// name it. A sub-queue has its queue's status.
package broker
