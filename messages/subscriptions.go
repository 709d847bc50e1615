package messages

// SubscriberID identifies a subscription. IDs are unique in a process.
type SubscriberID uint64

// Unsubscribe: node -> subscriptions, no reply. A duplicate changes nothing.
type Unsubscribe struct{ Subscriber SubscriberID }

// ChainMoved: node -> subscriptions -> subscribers, no reply. There is a new block on disk or a new
// head. Subscribers read the chain to get the new block or head. After a loss, the next ChainMoved
// has the same effect. A duplicate costs one read.
type ChainMoved struct{}
