package backend

import (
	"encoding/json"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/stream"
)

// appendCode returns, as base64 in JSON, the contract code with the given hash that a transaction
// or receipt of the block carries; null if none carries it. It is needed because documents contain
// only the hash of code, and the code of a failed deployment is in no account.
func appendCode(m *stream.Block, hash primitives.Hash) ([]byte, error) {
	for i := range m.Shards {
		c := m.Shards[i].Chunk
		if c == nil {
			continue
		}
		for _, t := range c.Transactions {
			if code := codeIn(t.Actions, hash); code != nil {
				return json.Marshal(code)
			}
		}
		for _, r := range c.PrevOutgoingReceipts {
			var code []byte
			switch body := r.Body.(type) {
			case *primitives.ActionReceipt:
				code = codeIn(body.Actions, hash)
			case *primitives.GlobalContractDistribution:
				code = ifHash(body.Code, hash)
			default: // no other receipt carries code
			}
			if code != nil {
				return json.Marshal(code)
			}
		}
	}
	return []byte("null"), nil
}

// codeIn returns the code with a hash that actions deploy; nil if none does.
func codeIn(actions []primitives.Action, hash primitives.Hash) []byte {
	for _, a := range actions {
		var code []byte
		switch a := a.(type) {
		case *primitives.DeployContract:
			code = ifHash(a.Code, hash)
		case *primitives.DeployGlobalContract:
			code = ifHash(a.Code, hash)
		default: // no other action deploys code
		}
		if code != nil {
			return code
		}
	}
	return nil
}

func ifHash(code []byte, hash primitives.Hash) []byte {
	if primitives.HashBytes(code) == hash {
		return code
	}
	return nil
}
