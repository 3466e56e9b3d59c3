// Package broker contains the use cases. It checks rights and messages, chooses partitions, and
// shares the store's messages out among receivers. It implements core.Broker and core.Admin on any
// core.Store and keeps no state that matters in memory.
//
// Entities are cached at one revision; Run keeps the cache, and everything that is open on it, up
// to date. Each queue or sub-queue with receivers has one dispatcher, with one worker per
// partition: the credit of all receivers together becomes one Lock call at a time per partition. An
// idle gateway does not poll, except for the sweeps of dispatchers of dead letters, and of queues
// whose dead letters are forwarded.
//
// Sessions have a hub per entity instead. Each open session has a goroutine that locks its messages
// in order. Calls that wait for a free session stand in one queue, and a finder per partition asks
// the store for one. Sessions and finders follow the store's doorbells and due times, and look
// without them every few seconds.
//
// A message to a topic is evaluated by the rules of the subscriptions that this gateway knows, and
// published with their version. The store refuses a publication with an older version, and it is
// evaluated again. Forwarders move messages that no client asks for: to where entities forward, out
// of transfer queues, and scheduled messages of topics when they are due.
//
// Messages to an entity with a pipeline are judged by routers first: see pipelineRun and
// groupResult. A transaction collects operations, checks each as far as possible, and commits them
// by one call of the store.
//
// Rights are checked on the address as the client spells it: a grant for a queue covers its
// sub-queues and management nodes, while a grant for the management node covers only calls that
// name it. A sub-queue has its queue's status.
package broker
