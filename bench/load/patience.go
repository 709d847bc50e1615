package load

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// Like near-api-js, a client that gets a busy or timeout error waits and sends the same transaction
// again. This is safe: if a block already includes the transaction, the nonce of that transaction
// is used, so the chain does not execute it twice. The latency is measured from the due time.
const (
	maxAgain = 10
	// firstPause is the pause before the first repetition. The pause grows by half each time. A
	// random part of up to one half is subtracted.
	firstPause = 500 * time.Millisecond
	longPause  = 10 * time.Second
)

// submit sends a transaction, and sends it again after each busy or timeout reply, until the node
// reports its result.
func (t *Chain) submit(ctx context.Context, tx *primitives.SignedTransaction) error {
	err := t.send(ctx, tx)
	pause := firstPause
	for k := 0; k < maxAgain && hasNoTime(err); k++ {
		late := time.Duration(scatter(uint64(tx.Nonce.Nonce)+uint64(k)) % uint64(pause/2))
		if !sleep(ctx, pause-late) {
			return err
		}
		t.again.Add(1)
		pause = min(pause*3/2, longPause)
		// The nonce is probably used by this transaction itself, because neard does not check for
		// duplicates. Wait for it.
		if err = t.send(ctx, tx); usedNonce(err) {
			err = t.status(ctx, tx)
		}
	}
	return err
}

// status waits for the result of a transaction that was submitted before.
func (t *Chain) status(ctx context.Context, tx *primitives.SignedTransaction) error {
	hash := tx.Hash()
	body := append(make([]byte, 0, 256), `{"jsonrpc":"2.0","id":"bench","method":"tx","params":{"tx_hash":"`...)
	body = append(append(append(body, hash.String()...), `","sender_account_id":"`...), tx.SignerID...)
	return t.await(ctx, append(append(append(body, `","wait_until":"`...), t.o.Until...), `"}}`...))
}

// hasNoTime returns whether an error leaves the result of a transaction unknown: a busy reply, a
// timeout reply, or no reply.
func hasNoTime(err error) bool {
	var e *RPCError
	if !errors.As(err, &e) {
		return errors.Is(err, errNoAnswer)
	}
	return e.Cause == "TIMEOUT_ERROR" || e.HTTP == http.StatusServiceUnavailable || e.HTTP == http.StatusTooManyRequests ||
		e.Name == "INTERNAL_ERROR" && strings.Contains(e.Data, "reached its limits")
}

// usedNonce returns whether a node refused a transaction because the nonce is used.
func usedNonce(err error) bool {
	var e *RPCError
	return errors.As(err, &e) && e.Cause == "INVALID_TRANSACTION" && strings.Contains(e.Data, "InvalidNonce")
}

// Again implements Repeater.
func (t *Chain) Again() int { return int(t.again.Load()) }
