package rpc

import (
	"errors"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

var clientConfig = Method[noParams]{
	Name: "client_config", Doc: "Returns the node's configuration, with the effective value of each key.",
	Parse: parseNone,
	Handle: func(c *call, b []byte, _ *noParams) ([]byte, error) {
		config, err := c.node.ClientConfig()
		if err != nil {
			return b, internal(reachedLimits, err)
		}
		return append(b, config...), nil
	},
}

var congestionLevel = Method[view.ChunkRef]{
	Name: "EXPERIMENTAL_congestion_level", Doc: "Returns the congestion level of a shard at a chunk, from 0.0 to 1.0.",
	Faults: []*Fault{UnknownBlock, InvalidShardID, UnknownChunk, NotSyncedYet},
	Parse:  readChunkRef,
	Handle: func(c *call, b []byte, ref *view.ChunkRef) ([]byte, error) {
		ctx, leave := c.inTurn(nil)
		defer leave()
		level, err := c.node.CongestionLevel(ctx, *ref)
		if err != nil {
			return b, chunkFault(err)
		}
		b = appendFloat(append(b, `{"congestion_level":`...), strconv.AppendFloat(nil, level, 'g', -1, 64))
		return append(b, '}'), nil
	},
}

var validatorsOrdered = Method[*view.BlockRef]{
	Name:   "EXPERIMENTAL_validators_ordered",
	Doc:    `Returns the block producers of a block's epoch in their order. Without a block it is the head's epoch.`,
	Faults: []*Fault{UnknownEpoch, NoValidatorInfo},
	Parse:  parseMaybeBlock("RpcValidatorsOrderedRequest"),
	Handle: func(c *call, b []byte, ref **view.BlockRef) ([]byte, error) {
		v, err := c.node.ValidatorsOrdered(*ref)
		if err != nil {
			return b, validatorsFault(err)
		}
		return view.AppendValidatorStakes(b, v), nil
	},
}

var maintenanceWindows = Method[primitives.AccountID]{
	Name:    "maintenance_windows",
	Doc:     `Returns the remaining ranges of heights of the epoch at which an account does not produce a block or chunk.`,
	Aliases: []string{"EXPERIMENTAL_maintenance_windows"},
	Heavy:   true,
	Parse: func(v val) (id primitives.AccountID, err error) {
		return id, readStruct(v, "RpcMaintenanceWindowsRequest", field{"account_id", false, into(&id, readAccountID)})
	},
	Handle: func(c *call, b []byte, id *primitives.AccountID) ([]byte, error) {
		windows, err := c.node.MaintenanceWindows(*id)
		if err != nil {
			return b, internal(reachedLimits, err)
		}
		return view.AppendWindows(b, windows), nil
	},
}

var splitStorageInfo = Method[noParams]{
	Name: "EXPERIMENTAL_split_storage_info", Doc: "Returns the range of heights in the node's store.",
	Parse: func(v val) (p noParams, err error) { return p, readStruct(v, "RpcSplitStorageInfoRequest") },
	Handle: func(c *call, b []byte, _ *noParams) ([]byte, error) {
		s, err := c.node.SplitStorage()
		if err != nil {
			return b, internal(reachedLimits, err)
		}
		return view.AppendSplitStorage(b, s), nil
	},
}

// parseMaybeBlock returns a parser of {"block_id"}, in which null counts as missing. The parser
// also reads the same as an array.
func parseMaybeBlock(name string) func(val) (*view.BlockRef, error) {
	return func(v val) (ref *view.BlockRef, err error) {
		err = readStruct(v, name, field{"block_id", v.kind() == kObject, func(x val) error {
			if x.isNull() {
				return nil
			}
			id, err := readBlockID(x)
			ref = &id
			return err
		}})
		return ref, err
	}
}

// validatorsFault maps an error to the faults of the methods validators and
// EXPERIMENTAL_validators_ordered.
func validatorsFault(err error) error {
	switch {
	case errors.Is(err, view.ErrUnknownEpoch), errors.Is(err, view.ErrUnknownBlock), errors.Is(err, view.ErrUnknownHeight):
		return UnknownEpoch.because("Unknown Epoch", nil)
	case errors.Is(err, view.ErrNoValidatorInfo):
		return NoValidatorInfo.because("Validator info unavailable", nil)
	}
	return internal(reachedLimits, err)
}
