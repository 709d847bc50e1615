package messages

// SubscriberID identifies a subscription. Ids are unique in a process.
type SubscriberID uint64

// Unsubscribe: node -> subscriptions, no reply. A duplicate changes nothing.
type Unsubscribe struct{ Subscriber SubscriberID }

// ChainMoved: node -> subscriptions -> subscribers, no reply. There is a new block on disk or
// another head; subscribers read the chain. After a loss the next one suffices. A duplicate
// costs a read.
type ChainMoved struct{}
