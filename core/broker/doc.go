// Package broker is the use cases: it decides who may do what with which
// entity, checks messages, chooses partitions, and shares the store's messages
// out among receivers. It implements core.Broker and core.Admin on any
// core.Store and keeps nothing that matters in memory.
//
// Entities are cached with the revision they had; Run keeps the cache, and all
// that is open on it, up to date. For each queue or sub-queue with receivers
// there is one dispatcher, and in it one worker per partition: all receivers'
// credit together becomes one Lock call at a time per partition. Nothing polls
// while idle, but for the sweep described at sweeper, and that of queues whose
// dead letters are forwarded.
//
// Sessions have a hub per entity instead: each held session has a goroutine that
// locks its messages in order, and those that wait for a next one stand in one
// queue, for which one finder per partition asks the store. Both go by the
// store's doorbells and due times, and look by themselves every few seconds.
//
// What is sent to a topic is evaluated here against the rules of its subscriptions,
// the subscriptions as this gateway knows them, and published with their version:
// the store refuses what was evaluated against older rules, and it is evaluated
// again. Pumps move what nobody asks for: to where entities forward, out of
// transfer queues, and what was scheduled on topics when it is due.
//
// What comes into an entity with a pipeline is judged by routers first: see
// pipelineRun and groupResult. A transaction is collected, each operation checked as far as
// it can be before it is done, and committed by one call of the store.
//
// Rights are checked on the address as it is spelled: a grant for a queue covers
// its sub-queues and management nodes, while one for the management node alone
// covers only calls that name it. A sub-queue has its queue's status.
package broker
