package capture

import (
	"fmt"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// routed formats a routed message: its author, its target and its body.
func (n Names) routed(m *wire.Routed) string {
	to := "on the way back of " + hash(m.Target.Back)
	if m.Target.PeerID != "" {
		to = "to " + n.Of(m.Target.PeerID)
	}
	out := fmt.Sprintf("%v of %s %s", m.Body.BodyKind(), n.Of(m.Author), to)
	if m.Hops > 0 {
		out += fmt.Sprintf(", hop %d", m.Hops)
	}
	return out + ": " + n.body(m.Body)
}

func (n Names) body(b wire.Body) string {
	switch b := b.(type) {
	case *wire.BlockApproval:
		if b.Inner.Skip {
			return fmt.Sprintf("%s votes to skip from block %d to height %d", b.AccountID, b.Inner.SkipHeight, b.Target)
		}
		return fmt.Sprintf("%s votes for block %s below height %d", b.AccountID, hash(b.Inner.Endorsement), b.Target)
	case *wire.ForwardTx:
		return transaction(&b.SignedTransaction)
	case *wire.TxStatusRequest:
		return fmt.Sprintf("asks what became of transaction %s of %s", hash(b.Hash), b.Signer)
	case *wire.TxStatusResponse:
		return "what became of it, " + size(b.Outcome)
	case *wire.ChunkRequest:
		return fmt.Sprintf("asks for parts %s of chunk %s, receipts to shards %s", list(b.Ords), hash(b.ChunkHash), list(b.Shards))
	case *wire.ChunkResponse:
		return fmt.Sprintf("%s of chunk %s; %s", parts(b.Parts), hash(b.ChunkHash), receipts(b.Receipts))
	case *wire.Ping:
		return fmt.Sprintf("ping %d of %s", b.Nonce, n.Of(b.Source))
	case *wire.Pong:
		return fmt.Sprintf("pong %d of %s", b.Nonce, n.Of(b.Source))
	case *wire.PartialChunk:
		h := &b.Header
		return fmt.Sprintf("%s of chunk %s of shard %d at height %d; %s", parts(b.Parts), hash(h.ChunkHash()), h.ShardID,
			h.HeightCreated, receipts(b.Receipts)) +
			chunkAnchor(b.Anchor)
	case *wire.ChunkForward:
		return fmt.Sprintf("%s of chunk %s of shard %d at height %d", parts(b.Parts), hash(b.ChunkHash), b.ShardID, b.HeightCreated)
	case *wire.WitnessAck:
		return "the witness of chunk " + hash(b.ChunkHash) + " has come"
	case *wire.PartialWitness:
		return witness(&b.PartialWitness)
	case *wire.PartialWitnessForward:
		return witness(&b.PartialWitness)
	case *wire.VersionedWitness:
		return witness(&b.PartialWitness)
	case *wire.VersionedWitnessForward:
		return witness(&b.PartialWitness)
	case *wire.ChunkEndorsement:
		d := &b.Metadata
		return fmt.Sprintf("%s endorses chunk %s of shard %d at height %d", d.AccountID, hash(b.ChunkHash), d.ShardID, d.HeightCreated)
	case *wire.RoutedStatePartRequest:
		return fmt.Sprintf("asks for part %d of the state of shard %d at %s, to be sent to %v", b.Part, b.ShardID, hash(b.SyncHash), b.Addr)
	case *wire.RoutedStateHeaderRequest:
		return fmt.Sprintf("asks for the state header of shard %d at %s, to be sent to %v", b.ShardID, hash(b.SyncHash), b.Addr)
	case *wire.StateRequestAck:
		what := "the header"
		if !b.Header {
			what = fmt.Sprintf("part %d", b.Part)
		}
		answer := map[primitives.StateAckBody]string{primitives.StateWillRespond: "comes",
			primitives.StateBusy: "does not come, it is busy", primitives.StateError: "does not come, it has failed"}[b.Body]
		return fmt.Sprintf("%s of the state of shard %d at %s %s", what, b.ShardID, hash(b.SyncHash), answer)
	case *wire.ContractAccesses:
		return chunkKey(&b.Key) + anchored(b.Anchor) + " calls contracts: " + some("hashes", b.Contracts, codeHash)
	case *wire.ContractCodeRequest:
		return fmt.Sprintf("%s asks for code of %s: %s", b.Requester, chunkKey(&b.Key), some("hashes", b.Contracts, codeHash))
	case *wire.ContractCodeResponse:
		by := ""
		if b.Responder != "" {
			by = " by " + string(b.Responder)
		}
		return fmt.Sprintf("code for %s%s, %s compressed", chunkKey(&b.Key), by, size(b.Compressed))
	case *wire.ContractDeploys:
		return fmt.Sprintf("part %d of the code that %s%s deploys, %s of %d", b.Ord, chunkKey(&b.Key), anchored(b.Anchor),
			size(b.Part), b.EncodedLength)
	}
	panic(fmt.Sprintf("capture: no text for message type %T", b))
}

func codeHash(h primitives.Hash) string { return hash(h) }

func chunkKey(k *primitives.ChunkKey) string {
	return fmt.Sprintf("the chunk of shard %d at height %d", k.ShardID, k.HeightCreated)
}

func witness(p *primitives.PartialWitness) string {
	return fmt.Sprintf("part %d of the witness for the chunk of shard %d at height %d%s, %s of %d", p.Ord, p.ShardID,
		p.HeightCreated, anchored(p.Anchor), size(p.Part), p.EncodedLength)
}

// anchored formats the parent and the anchor of a chunk, which messages have from protocol version
// 87 on.
func anchored(a *primitives.ChunkAnchor) string {
	if a == nil {
		return ""
	}
	return fmt.Sprintf(" on block %s, anchor %s", hash(a.PrevBlock), hash(a.PrevPrevBlock))
}

// chunkAnchor formats the anchor of a partial chunk.
func chunkAnchor(a *primitives.PartialChunkAnchor) string {
	if a == nil {
		return ""
	}
	return fmt.Sprintf("; anchor %s, epoch %s", hash(a.PrevPrevBlock), hash(a.EpochID))
}

func parts(p []primitives.ChunkPart) string {
	return some("parts", p, func(p primitives.ChunkPart) string { return fmt.Sprintf("%d (%s)", p.Ord, size(p.Part)) })
}

func receipts(p []primitives.ReceiptProof) string {
	n := 0
	for _, x := range p {
		n += len(x.Receipts)
	}
	return fmt.Sprintf("%d receipts to %d shards", n, len(p))
}
