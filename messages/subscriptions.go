package messages

// SubscriberID identifies a subscription. IDs are unique in a process.
type SubscriberID uint64

// Unsubscribe: node -> subscriptions, no reply. A duplicate changes nothing.
type Unsubscribe struct{ Subscriber SubscriberID }

// ChainMoved: node -> subscriptions -> subscribers, no reply. There is a new block on disk or
// another head; subscribers read the chain to find out. A loss is made good by the next one. A
// duplicate costs one read.
type ChainMoved struct{}
