package libp2p

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

const (
	maxBatch      = 256      // maximum number of transactions in a batch
	maxBatchBytes = 64 << 10 // no transaction is added to a batch with more bytes
	// maxTx is a size in bytes. maxTx exceeds max_transaction_size of every protocol version.
	maxTx = 4 << 20
	// txRoom is the memory in bytes that the lists of a decoded transaction may take in addition to
	// eight times its length. An entry of a state init takes six times its length.
	txRoom = 1 << 20
)

// appendBatch appends a transaction to a batch. A batch starts with its creation time, so that
// publishing the same transactions again results in a different message.
func appendBatch(b []byte, at time.Time, tx *primitives.SignedTransaction) []byte {
	if len(b) == 0 {
		b = borsh.AppendUint64(b, uint64(at.UnixMilli()))
	}
	at0 := len(b)
	b = tx.AppendBorsh(borsh.AppendUint32(b, 0))
	binary.LittleEndian.PutUint32(b[at0:], uint32(len(b)-at0-4))
	return b
}

var errBatch = errors.New("libp2p: invalid batch of transactions")

// readBatch decodes a batch of distinct, canonically encoded transactions. The memory of the result
// is bounded by a multiple of the length: an action of one byte takes sixteen bytes.
func readBatch(b []byte) (out []*primitives.SignedTransaction, err error) {
	if len(b) <= 8 || len(b) > 8+maxBatchBytes+4+maxTx {
		return nil, errBatch
	}
	seen := map[primitives.Hash]bool{}
	for b = b[8:]; len(b) > 0; {
		if len(b) < 4 || len(out) >= maxBatch {
			return nil, errBatch
		}
		n := int(binary.LittleEndian.Uint32(b))
		if b = b[4:]; n > len(b) || n > maxTx {
			return nil, errBatch
		}
		tx := new(primitives.SignedTransaction)
		if err := borsh.UnmarshalWithin(b[:n], tx, txRoom+8*n); err != nil {
			return nil, err
		}
		if seen[tx.Hash()] {
			return nil, errBatch
		}
		seen[tx.Hash()] = true
		out, b = append(out, tx), b[n:]
	}
	return out, nil
}
