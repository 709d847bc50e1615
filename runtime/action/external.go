package action

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
)

// External is the world of one call: the state of its account, and the promises it makes (nearcore ext.rs RuntimeExt).
type External struct {
	State *state.TrieUpdate

	block      *Block
	account    primitives.AccountID
	actionHash primitives.Hash
	dataCount  uint64 // of data ids made

	promises []*Promise
	resumes  []Resume
	weights  []weighted
}
