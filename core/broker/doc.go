// Package broker is the use cases: it decides who may do what with which
// entity, checks messages, chooses partitions, and shares the store's messages
// out among receivers. It implements core.Broker and core.Admin on any
// core.Store and keeps nothing that matters in memory.
//
// Entities are cached with the revision they had; Run keeps the cache, and all
// that is open on it, up to date. For each queue or sub-queue with receivers
// there is one dispatcher, and in it one worker per partition: all receivers'
// credit together becomes one Lock call at a time per partition. Nothing polls
// while idle, but for the sweep described at sweeper.
//
// Rights are checked on the address as it is spelled: a grant for a queue covers
// its sub-queues and management nodes, while one for the management node alone
// covers only calls that name it. A sub-queue has its queue's status.
package broker
