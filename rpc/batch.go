package rpc

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/rpc/limits"
)

const (
	// maxConcurrent is the maximum number of concurrent requests of a batch.
	maxConcurrent = 16
	// maxTooLarge is the number of replies of a batch that may exceed the reply limit. After that
	// many, all further requests are rejected without being run.
	maxTooLarge = 3
)

var errBatchTime = errors.New("the time of the batch is over (troupe.rpc.batch_timeout)")

// batch answers a list of requests with a list of replies in the same order. Requests run one after
// the other. Adjacent requests that wait for the chain run concurrently, unless their order matters
// (see batched.lane).
func (x *exchange) batch(b []byte, list val) []byte {
	x.until = time.Now().Add(x.opts.Limits.BatchTimeout)
	items := make([]batched, 0, list.len())
	list.each(func(v val) bool {
		var it batched
		if it.why = it.read(v); it.why == "" {
			it.route = byName[it.method]
			it.prepareID()
		}
		items = append(items, it)
		return true
	})
	b = append(b, '[')
	for i := 0; i < len(items); {
		n := 1
		for items[i].waits() && i+n < len(items) && items[i+n].waits() {
			n++
		}
		if n > 1 {
			b = x.runConcurrently(b, items[i:i+n], i > 0)
		} else {
			if i > 0 {
				b = append(b, ',')
			}
			b = x.item(b, &items[i])
		}
		i += n
	}
	return append(b, ']')
}

// batched is one request of a batch.
type batched struct {
	request
	why   string // error text for an invalid request; empty: the request is valid
	route *route // nil: the method does not exist
}

func (it *batched) waits() bool { return it.why == "" && it.route != nil && it.route.waits }

// lane identifies requests that must run in order, one after the other: requests with the same
// lane. The lane is empty if the order of a request does not matter. Submissions with the same
// signer and key have the same lane. All sandbox calls have one lane, because a call may depend on
// the previous call.
func (it *batched) lane() string {
	if it.route.sandbox {
		return "sandbox"
	}
	if !it.route.submits {
		return ""
	}
	p, err := parseSendTx(it.params)
	if err != nil {
		return ""
	}
	return string(p.Tx.SignerID) + " " + string(p.Tx.PublicKey)
}

// item runs one request and appends its reply.
func (x *exchange) item(b []byte, it *batched) []byte {
	switch {
	case it.why != "":
		return x.notRequest(b, it.why)
	case time.Now().After(x.until):
		x.limiter.refused[limits.BatchTime].Add(1)
		return x.refuse(b, it, internal(reachedLimits, errBatchTime).(*failure))
	case x.large >= maxTooLarge:
		return x.refuse(b, it, x.limiter.tooLarge())
	}
	if it.waits() && x.taken > 0 {
		x.peer.holdReplies()
		defer x.peer.releaseReplies()
	}
	b, _ = x.one(b, &it.request)
	return b
}

// refuse appends the failure f as the reply to a request that is not run.
func (x *exchange) refuse(b []byte, it *batched, f *failure) []byte {
	return x.reply(b, &it.request, func(b []byte) []byte { return f.appendError(append(b, `"error":`...)) })
}

// runConcurrently runs adjacent requests that wait for the chain. It appends the replies in the
// order of the requests. Requests with the same lane run one after the other. Requests with
// different lanes, or without a lane, run concurrently, at most maxConcurrent at a time.
func (x *exchange) runConcurrently(b []byte, items []batched, sep bool) []byte {
	if x.conn != nil {
		if _, err := x.sessions.open(x.Server, x.conn); err != nil {
			x.log.WithError(err).Debug("no session could be opened for a batch")
		}
	}
	replies := make([][]byte, len(items))
	lanes := map[string][]int{}
	var order []string
	for i := range items {
		lane := items[i].lane()
		if lane == "" {
			lane = "#" + string(appendInt(nil, i))
		}
		if lanes[lane] == nil {
			order = append(order, lane)
		}
		lanes[lane] = append(lanes[lane], i)
	}
	// The goroutines below copy x. Give up x's turn of the heavy limit first, because otherwise
	// each copy of x would give up the turn again.
	x.leaveTurn()
	places := make(chan struct{}, maxConcurrent)
	var all sync.WaitGroup
	var taken atomic.Int64
	var failed atomic.Pointer[string] // text of a panic in a goroutine below
	var once sync.Once
	kept := false
	keep := func() {
		once.Do(func() {
			x.peer.holdReplies()
			kept = true
		})
	}
	if x.taken > 0 {
		keep()
	}
	for _, lane := range order {
		places <- struct{}{}
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					text := fmt.Sprintf("%v\n%s", p, debug.Stack())
					failed.CompareAndSwap(nil, &text)
				}
				<-places
			}()
			own := *x
			own.max, own.taken = (x.max-len(b))/len(items), 0
			for _, i := range lanes[lane] {
				own.taken = 0
				replies[i] = own.item(nil, &items[i])
				if taken.Add(int64(own.taken)) > 0 {
					keep()
				}
			}
		})
	}
	all.Wait()
	if kept {
		x.peer.releaseReplies()
	}
	if text := failed.Load(); text != nil {
		panic(*text) // exchange's caller recovers from the panic
	}
	x.taken += int(taken.Load())
	for i := range replies {
		if sep || i > 0 {
			b = append(b, ',')
		}
		b = appendPieces(b, replies[i])
	}
	return b
}
