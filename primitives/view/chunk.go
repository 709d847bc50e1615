package view

import "github.com/troupe-chain/troupe/primitives"

// AppendChunk appends ChunkView (nearcore views.rs:1289). Its receipts are the outgoing receipts of
// the shard's previous chunk.
func AppendChunk(b []byte, author primitives.AccountID, c *primitives.Chunk) []byte {
	b = AppendAccountID(append(b, `{"author":`...), author)
	b = AppendChunkHeader(append(b, `,"header":`...), &c.Header)
	b = AppendReceipts(append(b, `,"receipts":`...), c.PrevOutgoingReceipts)
	b = appendList(append(b, `,"transactions":`...), c.Transactions, func(b []byte, t **primitives.SignedTransaction) []byte {
		return AppendSignedTransaction(b, *t)
	})
	return append(b, '}')
}

// AppendChunkHeader appends ChunkHeaderView with sorted members.
func AppendChunkHeader(b []byte, h *primitives.ChunkHeader) []byte {
	return sortedOrder.ChunkHeader(b, h)
}

// bandwidthRequests appends BandwidthRequests.
func (e *Encoder) bandwidthRequests(b []byte, rs []primitives.BandwidthRequest) []byte {
	return append(appendList(append(b, `{"V1":{"requests":`...), rs, e.bandwidthRequest), "}}"...)
}

func appendBitmap(b, bits []byte) []byte {
	return append(AppendByteNumbers(append(b, `{"data":`...), bits), '}')
}

// trieSplit appends the proposed split of a shard; null for none.
func (e *Encoder) trieSplit(b []byte, s *primitives.TrieSplit) []byte {
	if s == nil {
		return append(b, "null"...)
	}
	return e.proposedSplit(b, s)
}
