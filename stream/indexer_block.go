package stream

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// AppendIndexerBlock appends the reply of EXPERIMENTAL_indexer_block (near-jsonrpc-primitives
// 0.38.0 src/types/indexer.rs, RpcIndexerBlockResponse): the StreamerMessage, and the shards that
// the node has executed, in the layout's order. As in all replies of the RPC, members are in
// ascending order at every depth. details are by shard, as in m.Shards. AppendIndexerBlock returns
// ErrReceipt if a receipt is missing, and ErrLarge if the reply would have more than `most` bytes.
func AppendIndexerBlock(b []byte, m *Block, details []Details, tracked []primitives.ShardID, most int) ([]byte, error) {
	from := len(b)
	b = append(view.AppendBlock(append(b, `{"block":`...), m.Author, m.Block), `,"shards":[`...)
	for i := range m.Shards {
		var err error
		if b, err = appendSortedShard(append(b, comma(i)...), planOf(m, &m.Shards[i], &details[i])); err != nil {
			return b, err
		}
		if len(b)-from > most {
			return b, ErrLarge
		}
	}
	b = append(b, `],"tracked_shards":[`...)
	for i, id := range tracked {
		b = strconv.AppendUint(append(b, comma(i)...), uint64(id), 10)
	}
	if b = append(b, "]}"...); len(b)-from > most {
		return b, ErrLarge
	}
	return b, nil
}

// ErrLarge is the error of a text that is longer than allowed.
var ErrLarge = errors.New("stream: the message is too large")

// appendSortedShard appends an IndexerShard with its members in ascending order.
func appendSortedShard(b []byte, p *plan) ([]byte, error) {
	b = append(b, `{"chunk":`...)
	if p.Chunk == nil {
		b = append(b, "null"...)
	} else {
		b = appendSortedChunk(b, p)
	}
	b = append(b, `,"receipt_execution_outcomes":[`...)
	for i, k := range p.rest {
		outcome := &p.outcomes[k]
		receipt := p.Receipts[outcome.ID]
		if receipt == nil {
			return b, fmt.Errorf("%w: %v, executed in block %v", ErrReceipt, outcome.ID, outcome.BlockHash)
		}
		b = view.AppendOutcomeProof(append(append(b, comma(i)...), `{"execution_outcome":`...), outcome)
		b = append(view.AppendReceipt(append(b, `,"receipt":`...), receipt), '}')
	}
	b = strconv.AppendUint(append(b, `],"shard_id":`...), uint64(p.ID), 10)
	b = append(b, `,"state_changes":[`...)
	n := 0
	var changes []view.Change
	for i := range p.Changes {
		var err error
		if changes, err = view.AppendKeyChanges(changes[:0], &p.Changes[i]); err != nil {
			return b, err
		}
		for k := range changes {
			b = view.AppendChange(append(b, comma(n)...), &changes[k])
			n++
		}
	}
	return append(b, "]}"...), nil
}

// appendSortedChunk appends an IndexerChunkView with its members in ascending order.
func appendSortedChunk(b []byte, p *plan) []byte {
	header := p.Chunk.Header
	header.HeightIncluded = 0 // as in the produced chunk, which nearcore reads by hash
	b = view.AppendAccountID(append(b, `{"author":`...), p.Author)
	b = view.AppendChunkHeader(append(b, `,"header":`...), &header)
	b = view.AppendReceipts(append(b, `,"instant_receipts":`...), p.Instant)
	b = view.AppendReceipts(append(b, `,"local_receipts":`...), p.Local)
	b = view.AppendReceipts(append(b, `,"receipts":`...), p.Chunk.PrevOutgoingReceipts)
	b = append(b, `,"transactions":[`...)
	for i, x := range p.taken {
		b = view.AppendOutcomeProof(append(append(b, comma(i)...), `{"outcome":{"execution_outcome":`...), &p.outcomes[x.outcome])
		b = append(view.AppendSignedTransaction(append(b, `,"receipt":null},"transaction":`...), x.tx), '}')
	}
	return append(b, "]}"...)
}
