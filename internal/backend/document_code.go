package backend

import (
	"encoding/json"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/stream"
)

// appendCode returns the contract code with the given hash, as base64 in JSON, if a transaction or
// receipt of the block contains it. Otherwise appendCode appends null. Documents contain only the
// hash of code, and no account has the code of a failed deployment.
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
			default: // receipts of all other kinds contain no code
			}
			if code != nil {
				return json.Marshal(code)
			}
		}
	}
	return []byte("null"), nil
}

// codeIn returns the code with a hash that actions deploy, or nil.
func codeIn(actions []primitives.Action, hash primitives.Hash) []byte {
	for _, a := range actions {
		var code []byte
		switch a := a.(type) {
		case *primitives.DeployContract:
			code = ifHash(a.Code, hash)
		case *primitives.DeployGlobalContract:
			code = ifHash(a.Code, hash)
		default: // only the actions above deploy code
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
