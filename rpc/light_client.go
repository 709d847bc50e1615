package rpc

import (
	"errors"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

var lightClientProof = Method[view.OutcomeRef]{
	Name: "light_client_proof", Doc: "Returns a proof of the outcome of a transaction or receipt for a light client.",
	Aliases: []string{"EXPERIMENTAL_light_client_proof"},
	Faults:  []*Fault{UnknownBlock, InconsistentState, NotConfirmed, UnknownOutcome, UnavailableShard},
	Parse:   parseOutcomeRef,
	Handle: func(c *call, b []byte, ref *view.OutcomeRef) ([]byte, error) {
		proof, err := c.node.LightClientProof(ref)
		if err != nil {
			return b, proofFault(err)
		}
		return view.AppendLightClientProof(b, proof), nil
	},
}

// blockProofParams are the hash of the block to prove and the hash of the light client's head.
type blockProofParams struct{ block, head primitives.Hash }

var lightClientBlockProof = Method[blockProofParams]{
	Name: "EXPERIMENTAL_light_client_block_proof", Doc: "Returns a proof for a light client that a block is part of its chain.",
	Faults: []*Fault{UnknownBlock, InconsistentState, NotConfirmed, UnknownOutcome, UnavailableShard},
	Parse: func(v val) (p blockProofParams, err error) {
		err = readStruct(v, "RpcLightClientBlockProofRequest", field{"block_hash", false, into(&p.block, readHash)},
			field{"light_client_head", false, into(&p.head, readHash)})
		return p, err
	},
	Handle: func(c *call, b []byte, p *blockProofParams) ([]byte, error) {
		header, path, err := c.node.LightClientBlockProof(p.block, p.head)
		if err != nil {
			return b, proofFault(err)
		}
		return view.AppendLightClientBlockProof(b, header, path), nil
	},
}

var nextLightClientBlock = Method[primitives.Hash]{
	Name: "next_light_client_block", Doc: "Returns the light client block that follows the last block that a light client knows.",
	Faults: []*Fault{UnknownBlock, EpochOutOfBounds},
	Parse: func(v val) (h primitives.Hash, err error) {
		if x, ok := single(v); ok {
			return readHash(x)
		}
		err = readStruct(v, "RpcLightClientNextBlockRequest", field{"last_block_hash", false, into(&h, readHash)})
		return h, err
	},
	Handle: func(c *call, b []byte, h *primitives.Hash) ([]byte, error) {
		next, err := c.node.NextLightClientBlock(*h)
		if e, ok := lookup(err); ok {
			switch e.Kind {
			case view.ErrUnknownBlock, view.ErrUnknownHeight:
				return b, UnknownBlock.asCause(nil)
			case view.ErrEpochOutOfBounds:
				return b, EpochOutOfBounds.asCause(member(nil, "epoch_id", view.AppendHash(nil, &e.Hash)))
			}
		}
		switch {
		case err != nil:
			return b, internalAsCause(err)
		case next == nil:
			return append(b, "{}"...), nil
		}
		return view.AppendLightClientBlock(b, next), nil
	},
}

// proofFault maps an error to the faults of the two proof methods (nearcore
// chain/jsonrpc-primitives/src/types/light_client.rs).
func proofFault(err error) error {
	e, ok := lookup(err)
	if !ok {
		return internal(internalError, err)
	}
	id := e.Hash.String()
	idInfo := func() []byte { return member(nil, "transaction_or_receipt_id", quoted(id)) }
	switch e.Kind {
	case view.ErrUnknownHeight, view.ErrUnknownBlock:
		return UnknownBlock.because(notFound+missingBlock(e, "BLOCK HEADER"), nil)
	case view.ErrInconsistentState:
		shards, shard := strconv.FormatUint(e.Shards, 10), string(shardNumber(e.ShardID))
		info := member(member(nil, "execution_outcome_shard_id", []byte(shard)), "number_or_shards", []byte(shards))
		return InconsistentState.because("Inconsistent state. Total number of shards is "+shards+
			" but the execution outcome is in shard "+shard, info)
	case view.ErrNotConfirmed:
		return NotConfirmed.because(id+" has not been confirmed", idInfo())
	case view.ErrUnknownOutcome:
		return UnknownOutcome.because(id+" does not exist", idInfo())
	case view.ErrOutcomeShard:
		return UnavailableShard.because("Node doesn't track the shard where "+id+" is executed",
			member(member(nil, "shard_id", shardNumber(e.ShardID)), "transaction_or_receipt_id", quoted(id)))
	}
	return internal(internalError, err)
}

// parseOutcomeRef parses {"type": "transaction" | "receipt", ...}. It reads the member with the
// light client's head first, then the type and the members of that type.
func parseOutcomeRef(v val) (ref view.OutcomeRef, err error) {
	if err = needObject(v, "RpcLightClientExecutionProofRequest"); err != nil {
		return ref, err
	}
	if err = readFields(v, []field{{"light_client_head", false, into(&ref.Head, readHash)}}); err != nil {
		return ref, err
	}
	kind, ok := v.get("type")
	if !ok {
		return ref, missingField("type")
	}
	i, err := readTag(kind, []string{"transaction", "receipt"})
	if err != nil {
		return ref, err
	}
	names := [...][2]string{{"transaction_hash", "sender_id"}, {"receipt_id", "receiver_id"}}[i]
	ref.Receipt = i == 1
	return ref, readFields(v, []field{{names[0], false, into(&ref.ID, readHash)}, {names[1], false, into(&ref.Account, readAccountID)}})
}

var receipt = Method[primitives.Hash]{
	Name: "EXPERIMENTAL_receipt", Doc: "Returns a receipt by its id.",
	Faults: []*Fault{UnknownReceipt},
	Parse: func(v val) (h primitives.Hash, err error) {
		err = readStruct(v, "ReceiptReference", field{"receipt_id", false, into(&h, readHash)})
		return h, err
	},
	Handle: func(c *call, b []byte, id *primitives.Hash) ([]byte, error) {
		if err := c.expect(*id); err != nil {
			return b, err
		}
		ctx, leave := c.inTurn(c.key)
		defer leave()
		receipt, err := c.node.Receipt(ctx, *id)
		if errors.Is(err, view.ErrUnknownReceipt) {
			return b, UnknownReceipt.asCause(member(nil, "receipt_id", view.AppendHash(nil, id)))
		}
		if err != nil {
			return b, internalAsCause(err)
		}
		if b, err = c.reserve(b, view.ReceiptSize(receipt)); err != nil {
			return b, err
		}
		return view.AppendReceipt(b, receipt), nil
	},
}
