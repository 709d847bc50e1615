package rpc

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// Faults of subscriptions.
var (
	NotAWebSocket       = &Fault{Name: "NOT_A_WEBSOCKET"}
	UnknownSubscription = &Fault{Name: "UNKNOWN_SUBSCRIPTION"}
	CursorLost          = &Fault{Name: "CURSOR_LOST", Fields: true}
)

var errNoSocket = NotAWebSocket.because("subscriptions are for WebSockets: connect to "+socketPath, nil)

// subscribeCost is the work that a client is charged for a subscription. A subscription to an
// account searches some hundred blocks for transactions that are not final.
const subscribeCost = 5 * time.Millisecond

// maxHashes is the maximum number of transactions that a subscription may name. The same maximum
// applies to its shards and to its accounts.
const maxHashes = 256

var subscribe = Method[view.Subscription]{
	Name: "subscribe", Doc: `Subscribes this WebSocket to blocks, transactions, outcomes, events, or whole blocks with their state changes.`,
	Faults: []*Fault{NotAWebSocket, UnknownBlock, NotSyncedYet, CursorLost},
	Own:    true, Parse: parseSubscription,
	Handle: func(c *call, b []byte, q *view.Subscription) ([]byte, error) {
		k := c.x.socket
		if k == nil {
			return b, errNoSocket
		}
		if err := c.x.mayRead(); err != nil {
			return b, busy(limits.MaxAddressWork)
		}
		c.x.worked(subscribeCost)
		sub, full := k.newSubscription()
		if full != limits.Count {
			return b, busy(full)
		}
		q.Lag, q.Address = c.opts.Limits.SubscriptionLag, k.client.addr.As16()
		of, err := c.node.Subscribe(q, sub)
		if err != nil {
			k.forget(sub)
			if errors.Is(err, view.ErrLingering) {
				c.limiter.refused[limits.MaxSubscriptions].Add(1)
				return b, busy(limits.MaxSubscriptions)
			}
			var lost *view.CursorError
			if errors.As(err, &lost) {
				return b, CursorLost.because(err.Error(), member(nil, "earliest_height", appendInt(nil, int(lost.Earliest))))
			}
			if fault, ok := blockFault(err, "BLOCK"); ok {
				return b, fault
			}
			return b, internal(reachedLimits, err)
		}
		k.mu.Lock()
		sub.of = of
		ended := k.ended
		k.mu.Unlock()
		if ended {
			k.forget(sub)
			of.Cancel()
		}
		c.x.after = append(c.x.after, of.Start)
		at := of.At()
		b = view.AppendCursor(append(b, `{"cursor":`...), &at)
		return append(append(append(b, `,"subscription":"`...), sub.id...), `"}`...), nil
	},
}

var unsubscribe = Method[string]{
	Name: "unsubscribe", Doc: "Ends a subscription of this WebSocket.",
	Faults: []*Fault{NotAWebSocket, UnknownSubscription},
	Own:    true, Parse: func(v val) (id string, err error) {
		if x, ok := single(v); ok {
			return readText(x)
		}
		err = readStruct(v, "UnsubscribeRequest", field{"subscription", false, into(&id, readText)})
		return id, err
	},
	Handle: func(c *call, b []byte, id *string) ([]byte, error) {
		k := c.x.socket
		if k == nil {
			return b, errNoSocket
		}
		k.mu.Lock()
		sub := k.subs[*id]
		k.mu.Unlock()
		// sub.of is never nil here, because it is set before the client learns the id.
		if sub == nil {
			return b, UnknownSubscription.because("this WebSocket has no subscription "+clipTo(*id, maxEcho), nil)
		}
		k.forget(sub)
		sub.of.Cancel()
		return append(b, "true"...), nil
	},
}

// readShardUID reads {"shard_id", "version"}.
func readShardUID(v val) (uid primitives.ShardUID, err error) {
	err = readStruct(v, "ShardUId", field{"shard_id", false, into(&uid.ID, readUint32)},
		field{"version", false, into(&uid.Version, readUint32)})
	return uid, err
}

func readUint32(v val) (uint32, error) {
	n, err := readUint64(v)
	if err == nil && n > math.MaxUint32 {
		err = errors.New("invalid value: integer `" + strconv.FormatUint(n, 10) + "`, expected u32")
	}
	return uint32(n), err
}

func readText(v val) (string, error) {
	b, err := readString(v)
	return string(b), err
}

// finalities are the finalities that a subscription may name.
var finalities = []string{"optimistic", "near-final", "final"}

func parseSubscription(v val) (q view.Subscription, err error) {
	if err = needObject(v, "SubscribeRequest"); err != nil {
		return q, err
	}
	name, ok := v.get("topic")
	if !ok {
		return q, missingField("topic")
	}
	topic, err := readName(name, view.TopicNames)
	if err != nil {
		return q, err
	}
	q.Topic = view.Topic(topic)
	q.Finality = view.RefFinal
	account := field{"account_id", false, into(&q.Account, readAccountID)}
	fields := []field{
		{"after", true, func(x val) error {
			q.After = new(view.Cursor)
			return readCursor(x, q.After)
		}},
		{"from_height", true, func(x val) error {
			n, err := readUint64(x)
			h := primitives.Height(n)
			q.From = &h
			return err
		}},
	}
	finality := field{"finality", true, func(x val) error {
		i, err := readName(x, finalities)
		q.Finality = view.RefKind(i)
		return err
	}}
	switch q.Topic {
	case view.TopicBlocks:
		fields = append(fields, finality)
	case view.TopicMessages:
		var of view.ShardFilter
		fields = append(fields, finality,
			field{"shards", true, func(x val) (err error) {
				of.Shards, err = readList(x, readShardUID)
				q.Of = &of
				return err
			}},
			field{"accounts", true, func(x val) (err error) {
				of.Accounts, err = readList(x, readAccountID)
				q.Of = &of
				return err
			}})
	case view.TopicOutcomes:
		fields = append(fields, account, finality)
	case view.TopicEvents:
		fields = append(fields, account, finality, field{"standard", true, into(&q.Standard, readText)},
			field{"event", true, into(&q.Event, readText)})
	case view.TopicTransactions:
		q.Finality = view.RefOptimistic
		if _, byHash := v.get("tx_hashes"); byHash {
			fields = append(
				fields,
				field{"tx_hashes", false, into(&q.Hashes, func(x val) ([]primitives.Hash, error) { return readList(x, readHash) })},
			)
		} else {
			fields = append(fields, account)
		}
	}
	if err = readFields(v, fields); err != nil {
		return q, err
	}
	switch {
	case q.Hashes != nil && (len(q.Hashes) == 0 || len(q.Hashes) > maxHashes):
		err = errors.New("tx_hashes must have 1 to " + strconv.Itoa(maxHashes) + " hashes")
	case q.Of != nil && (len(q.Of.Shards)+len(q.Of.Accounts) == 0 || len(q.Of.Shards)+len(q.Of.Accounts) > maxHashes):
		err = errors.New("shards and accounts must name 1 to " + strconv.Itoa(maxHashes) + " together")
	case q.After != nil && q.From != nil:
		err = errors.New("after and from_height exclude each other")
	}
	return q, err
}

// readCursor reads a cursor that AppendCursor wrote.
func readCursor(v val, c *view.Cursor) error {
	c.Index = view.WholeBlock
	return readStruct(v, "Cursor", field{"block_hash", false, into(&c.Hash, readHash)},
		field{"height", false, func(x val) error {
			n, err := readUint64(x)
			c.Height = primitives.Height(n)
			return err
		}},
		field{"index", true, func(x val) error {
			if string(x.raw()) == "-1" {
				c.Index = view.NothingYet
				return nil
			}
			n, err := readUint64(x)
			if err == nil && n >= math.MaxInt32 {
				err = errors.New("index is too large")
			}
			c.Index = int(n)
			return err
		}})
}

// subscription is a subscription of a WebSocket. It is the sink of its view.Subscriber.
type subscription struct {
	k    *socket
	id   string
	head []byte // JSON with which each message to the client begins
	of   view.Subscriber
}

// newSubscription counts a new subscription and returns it with limits.Count. If a limit is
// reached, it returns nil and that limit.
func (k *socket) newSubscription() (*subscription, limits.ID) {
	most, holds := k.client.most(k.limiter.live.Load().AddressSubs)
	k.mu.Lock()
	defer k.mu.Unlock()
	why := limits.Count
	switch {
	case k.ended || uint64(len(k.subs)) >= k.opts.Limits.SocketSubs:
		why = limits.MaxSocketSubscriptions
	case holds && k.client.subs.Load() >= most:
		why = limits.MaxAddressSubscriptions
	case k.sockets.subs.Load() >= int64(k.opts.Limits.Subscriptions):
		why = limits.MaxSubscriptions
	}
	if why != limits.Count {
		k.limiter.refused[why].Add(1)
		return nil, why
	}
	k.client.subs.Add(1)
	k.sockets.subs.Add(1)
	k.nextSub++
	s := &subscription{k: k, id: strconv.FormatUint(k.nextSub, 10)}
	s.head = []byte(`{"jsonrpc":"2.0","method":"subscription","params":{"subscription":"` + s.id + `",`)
	k.subs[s.id] = s
	return s, why
}

// forget removes a subscription. forget returns false if the subscription was already removed.
func (k *socket) forget(s *subscription) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.subs[s.id] != s {
		return false
	}
	delete(k.subs, s.id)
	k.client.subs.Add(-1)
	k.sockets.subs.Add(-1)
	return true
}

// subscriptions returns the open subscriptions.
func (k *socket) subscriptions() (all []*subscription) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.subs {
		if s.of != nil {
			all = append(all, s)
		}
	}
	return all
}

// unsubscribeAll cancels all subscriptions and prevents new ones.
func (k *socket) unsubscribeAll() {
	k.mu.Lock()
	k.ended = true
	k.mu.Unlock()
	for _, s := range k.subscriptions() {
		k.forget(s)
		s.of.Cancel()
	}
}

var closing = []byte("}}")

// Offer implements view.Sink. After the end of the subscription, Offer drops notices.
func (s *subscription) Offer(n *view.Notice) bool {
	return s.k.out.offer(frame{head: s.head, body: n.Body, tail: closing})
}

// WhenRoom implements view.Sink.
func (s *subscription) WhenRoom(f func()) { s.k.out.whenRoom(f) }

// End implements view.Sink.
func (s *subscription) End(why view.EndReason, at *view.Cursor) {
	if !s.k.forget(s) {
		return
	}
	if why == view.EndSlow {
		s.k.limiter.refused[limits.MaxSubscriptionLag].Add(1)
	}
	b := view.AppendCursor([]byte(`"cursor":`), at)
	b = append(append(append(b, `,"closed":{"reason":"`...), why...), `"}`...)
	s.k.out.must(frame{head: s.head, body: b, tail: closing})
}
