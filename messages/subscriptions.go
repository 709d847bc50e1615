package messages

// SubscriberID names a subscription, in one process, for ever.
type SubscriberID uint64

// Unsubscribe: node -> streams, no reply: nobody wants to be told any more. A duplicate changes nothing.
type Unsubscribe struct{ Subscriber SubscriberID }

// ChainMoved: node -> streams -> subscribers, no reply: there is a new block on disk, or another head. They look by themselves. A
// loss is mended by the next; a duplicate costs a look.
type ChainMoved struct{}
