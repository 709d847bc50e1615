package rpc

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

var changesNames = []string{
	"account_changes", "single_access_key_changes", "all_access_key_changes", "contract_code_changes", "data_changes",
}

type changesParams struct {
	block   view.BlockRef
	request view.ChangesRequest
}

var changes = Method[changesParams]{
	Name: "changes", Doc: "Returns a block's state changes of accounts, keys, code or data, with the cause of each.",
	Aliases: []string{"EXPERIMENTAL_changes"},
	Faults:  []*Fault{UnknownBlock, NotSyncedYet},
	Heavy:   true,
	Parse:   parseChanges,
	Handle: func(c *call, b []byte, p *changesParams) ([]byte, error) {
		p.request.Max = c.left(b)
		hash, changes, err := c.node.Changes(p.block, &p.request)
		if errors.Is(err, view.ErrTooLarge) {
			return b, c.limiter.tooLarge()
		}
		if err != nil {
			return b, changesFault(err)
		}
		if b, err = c.reserve(b, p.request.Size); err != nil {
			return b, err
		}
		return view.AppendChanges(b, &hash, changes), nil
	},
}

var (
	blockEffects   = effects("block_effects", "Returns which accounts a block changed, and the kinds of the changes.", view.AppendEffects)
	changesInBlock = effects("EXPERIMENTAL_changes_in_block",
		"Returns the result of block_effects in exactly nearcore's format.", view.AppendChangesInBlock)
)

func effects(name, doc string, reply func(b []byte, block *primitives.Hash, es []view.Effect) []byte) Method[view.BlockRef] {
	return Method[view.BlockRef]{
		Name: name, Doc: doc,
		Heavy:  true,
		Faults: []*Fault{UnknownBlock, NotSyncedYet},
		Parse: func(v val) (ref view.BlockRef, err error) {
			if err = needObject(v, "RpcStateChangesInBlockRequest"); err != nil {
				return ref, err
			}
			return readFlatRef(v)
		},
		Handle: func(c *call, b []byte, ref *view.BlockRef) ([]byte, error) {
			hash, effects, err := c.node.Effects(*ref)
			if err != nil {
				return b, changesFault(err)
			}
			return reply(b, &hash, effects), nil
		},
	}
}

// changesFault maps an error of Node.Changes or Node.Effects to the faults of the methods that list
// changes. The data of these faults repeats the cause.
func changesFault(err error) error {
	if e, ok := lookup(err); ok {
		switch e.Kind {
		case view.ErrUnknownHeight, view.ErrUnknownBlock:
			return UnknownBlock.asCause(nil)
		case view.ErrNotSynced:
			return NotSyncedYet.asCause(nil)
		}
	}
	return internalAsCause(err)
}

func parseChanges(v val) (p changesParams, err error) {
	if err = needObject(v, "RpcStateChangesInBlockByTypeRequest"); err != nil {
		return p, err
	}
	if p.block, err = readFlatRef(v); err != nil {
		return p, err
	}
	kind, ok := v.get("changes_type")
	if !ok {
		return p, missingField("changes_type")
	}
	i, err := readTag(kind, changesNames)
	if err != nil {
		return p, err
	}
	r := &p.request
	r.Kind = view.ChangesKind(i)
	accounts := field{"account_ids", false, into(&r.Accounts, func(v val) ([]primitives.AccountID, error) {
		return readList(v, readAccountID)
	})}
	switch r.Kind {
	case view.SingleAccessKeyChanges:
		return p, readFields(v, []field{{"keys", false, into(&r.Keys, func(v val) ([]view.AccountKey, error) {
			return readList(v, readAccountKey)
		})}})
	case view.DataChanges:
		return p, readFields(v, []field{accounts, {"key_prefix_base64", false, into(&r.Prefix, readBase64)}})
	}
	return p, readFields(v, []field{accounts})
}

func readAccountKey(v val) (k view.AccountKey, err error) {
	err = readStruct(v, "AccountWithPublicKey", field{"account_id", false, into(&k.AccountID, readAccountID)},
		field{"public_key", false, into(&k.PublicKey, readKey)})
	var long tooLong
	if errors.As(err, &long) { // serde's text for an array in place of a flattened struct
		err = fmt.Errorf("invalid length %d, expected 2 elements in sequence", int(long))
	}
	return k, err
}
