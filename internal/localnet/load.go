package localnet

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// Bounds of the load.
const (
	maxSenders  = 32                    // maximum number of sending accounts; each has one request in progress
	loadTick    = 50 * time.Millisecond // interval between portions of transactions
	hashLife    = 5 * time.Second       // time for which the same block hash is used in transactions
	sendPause   = time.Second           // pause of a sender after a rejected transaction
	maxLoadText = 200                   // maximum length in bytes of a displayed reason
)

// loader sends transfers of 1 yoctoNEAR from account to account. The rate is an upper bound: each
// account waits for the reply before it sends the next transfer.
type loader struct {
	accounts []*primitives.KeyFile
	rate     atomic.Int64             // transactions per second
	urls     atomic.Pointer[[]string] // URLs of nodes that answer
	tokens   chan struct{}            // each token permits one transaction
	sent     atomic.Uint64
	refused  atomic.Uint64
	reason   atomic.Pointer[string] // reason for which the last transaction was rejected
}

func newLoader(accounts []*primitives.KeyFile) *loader {
	return &loader{accounts: accounts, tokens: make(chan struct{}, loadRates[len(loadRates)-1])}
}

// run sends transactions at the set rate until ctx ends.
func (l *loader) run(ctx context.Context) {
	var group sync.WaitGroup
	for i := range min(len(l.accounts), maxSenders) {
		group.Go(func() { l.send(ctx, i) })
	}
	tick := time.NewTicker(loadTick)
	defer tick.Stop()
	for credit := 0.0; ; {
		select {
		case <-ctx.Done():
			group.Wait()
			return
		case <-tick.C:
		}
		rate := float64(l.rate.Load())
		if credit += rate * loadTick.Seconds(); rate == 0 {
			credit = 0
		}
		for ; credit >= 1; credit-- {
			select {
			case l.tokens <- struct{}{}:
			default: // the senders are slower than the rate, so skip this portion
			}
		}
	}
}

func (l *loader) counts() Loaded {
	out := Loaded{Sent: l.sent.Load(), Refused: l.refused.Load()}
	if r := l.reason.Load(); r != nil {
		out.Err = *r
	}
	return out
}

// send sends the transactions of an account one after another.
func (l *loader) send(ctx context.Context, i int) {
	s := sender{from: l.accounts[i], to: l.accounts[(i+1)%len(l.accounts)].AccountID}
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.tokens:
		}
		urls := l.urls.Load()
		if l.rate.Load() == 0 || urls == nil || len(*urls) == 0 {
			continue
		}
		err := s.transfer(ctx, (*urls)[i%len(*urls)])
		if err == nil {
			l.sent.Add(1)
			continue
		}
		reason := fmt.Sprintf("%.*s", maxLoadText, err.Error())
		l.reason.Store(&reason)
		l.refused.Add(1)
		select {
		case <-ctx.Done():
			return
		case <-time.After(sendPause):
		}
	}
}

// sender is the state of one account that sends the transactions of the load.
type sender struct {
	from  *primitives.KeyFile
	to    primitives.AccountID
	url   string
	known bool // true: the nonce of the access key was read from the node at url
	// nonce is the nonce of the last transaction. It never decreases, because transactions with
	// lower nonces may still be pending.
	nonce uint64
	hash  primitives.Hash
	until time.Time // time until which hash may be used
}

// transfer sends one transaction. transfer returns when a node has accepted the transaction.
func (s *sender) transfer(ctx context.Context, url string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	defer func() {
		if err != nil {
			s.known, s.until = false, time.Time{}
		}
	}()
	key := s.from.SecretKey
	if s.url != url {
		s.url, s.known = url, false
	}
	if !s.known {
		var k struct{ Nonce uint64 }
		if err := call(ctx, url, "query", map[string]any{"request_type": "view_access_key", "finality": "optimistic",
			"account_id": s.from.AccountID, "public_key": key.PublicKey().String()}, &k); err != nil {
			return fmt.Errorf("read the key of %s: %w", s.from.AccountID, err)
		}
		s.known, s.nonce = true, max(s.nonce, k.Nonce)
	}
	if now := time.Now(); now.After(s.until) {
		var b struct {
			Header struct{ Hash primitives.Hash }
		}
		if err := call(ctx, url, "block", map[string]any{"finality": "final"}, &b); err != nil {
			return fmt.Errorf("read the final block: %w", err)
		}
		if b.Header.Hash == (primitives.Hash{}) {
			return errors.New("read the final block: it has no hash")
		}
		s.hash, s.until = b.Header.Hash, now.Add(hashLife)
	}
	s.nonce++
	tx := primitives.Transaction{SignerID: s.from.AccountID, PublicKey: key.PublicKey(),
		Nonce:      primitives.TransactionNonce{Nonce: primitives.Nonce(s.nonce)},
		ReceiverID: s.to, BlockHash: s.hash, Actions: []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(1)}}}
	id := tx.Hash()
	signed := primitives.NewSignedTransaction(tx, key.Sign(id[:]))
	var hash string
	if err := call(ctx, url, "broadcast_tx_async", []any{base64.StdEncoding.EncodeToString(signed.AppendBorsh(nil))}, &hash); err != nil {
		return fmt.Errorf("send a transaction of %s: %w", s.from.AccountID, err)
	}
	return nil
}
