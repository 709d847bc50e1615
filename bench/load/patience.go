package load

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// A client that gets a busy or timeout error waits and sends the very same transaction
// again, as near-api-js does: one that a block has is not run twice, and a new one
// would only find its nonce taken. Its latency goes on from when it was due.
const (
	maxAgain   = 10
	firstPause = 500 * time.Millisecond // then half as long again each time, and at random up to half of it less
	longPause  = 10 * time.Second
)

// submit sends a transaction until the node says what became of it.
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
		if err = t.send(ctx, tx); usedNonce(err) { // by itself, most likely: neard does not look
			err = t.status(ctx, tx)
		}
	}
	return err
}

// status waits for a transaction that was submitted before.
func (t *Chain) status(ctx context.Context, tx *primitives.SignedTransaction) error {
	hash := tx.Hash()
	body := append(make([]byte, 0, 256), `{"jsonrpc":"2.0","id":"bench","method":"tx","params":{"tx_hash":"`...)
	body = append(append(append(body, hash.String()...), `","sender_account_id":"`...), tx.SignerID...)
	return t.await(ctx, append(append(append(body, `","wait_until":"`...), t.o.Until...), `"}}`...))
}

// hasNoTime returns whether an answer, or its absence, leaves open what becomes of a transaction.
func hasNoTime(err error) bool {
	var e *RPCError
	if !errors.As(err, &e) {
		return errors.Is(err, errNoAnswer)
	}
	return e.Cause == "TIMEOUT_ERROR" || e.HTTP == http.StatusServiceUnavailable || e.HTTP == http.StatusTooManyRequests ||
		e.Name == "INTERNAL_ERROR" && strings.Contains(e.Data, "reached its limits")
}

// usedNonce returns whether a transaction is refused as one with its nonce was there before.
func usedNonce(err error) bool {
	var e *RPCError
	return errors.As(err, &e) && e.Cause == "INVALID_TRANSACTION" && strings.Contains(e.Data, "InvalidNonce")
}

// Again counts what was sent once more.
func (t *Chain) Again() int { return int(t.again.Load()) }
