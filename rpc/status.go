package rpc

import (
	"strconv"

	"github.com/troupe-chain/troupe/primitives/view"
)

var status = Method[noParams]{
	Name: "status", Doc: "Returns the state of the node and the head of its chain.",
	Faults: []*Fault{NodeIsSyncing, NoNewBlocks, EpochOutOfBounds},
	Parse:  parseNone,
	Handle: func(c *call, b []byte, _ *noParams) ([]byte, error) {
		s, err := c.node.Status()
		if err != nil {
			return b, statusFault(err)
		}
		return c.statuses.append(b, s, view.Sorted), nil
	},
}

var health = Method[noParams]{
	Name: "health", Doc: "Succeeds while the node keeps up with its chain.",
	Faults: []*Fault{NodeIsSyncing, NoNewBlocks, EpochOutOfBounds},
	Parse:  parseNone,
	Handle: func(c *call, b []byte, _ *noParams) ([]byte, error) {
		if err := c.node.Health(); err != nil {
			return b, statusFault(err)
		}
		return append(b, "null"...), nil
	},
}

// statusFault maps an error to the faults of status and health. The data of these faults repeats
// the cause.
func statusFault(err error) error {
	if e, ok := lookup(err); ok {
		switch e.Kind {
		case view.ErrSyncing:
			return NodeIsSyncing.asCause(nil)
		case view.ErrNoNewBlocks:
			elapsed := strconv.AppendUint([]byte{'['}, e.Elapsed/1e9, 10)
			elapsed = strconv.AppendUint(append(elapsed, ','), e.Elapsed%1e9, 10)
			return NoNewBlocks.asCause(member(nil, "elapsed", append(elapsed, ']')))
		case view.ErrEpochOutOfBounds:
			return EpochOutOfBounds.asCause(member(nil, "epoch_id", view.AppendHash(nil, &e.Hash)))
		}
	}
	return internalAsCause(err)
}

var networkInfo = Method[noParams]{
	Name: "network_info", Doc: "Returns the node's peers.",
	Parse: parseNone,
	Handle: func(c *call, b []byte, _ *noParams) ([]byte, error) {
		info, err := c.node.NetworkInfo()
		if err != nil {
			return b, internalAsCause(err)
		}
		return view.AppendNetworkInfo(b, info, view.Sorted), nil
	},
}

var validators = Method[view.EpochRef]{
	Name: "validators", Doc: "Returns the validators of an epoch, with the blocks and chunks that each produced, and the rewards.",
	Faults: []*Fault{UnknownEpoch, NoValidatorInfo},
	Parse:  parseEpochRef,
	Handle: func(c *call, b []byte, ref *view.EpochRef) ([]byte, error) {
		v, err := c.node.Validators(*ref)
		if err != nil {
			return b, validatorsFault(err)
		}
		return view.AppendValidators(b, v), nil
	},
}

var epochRefNames = []string{"epoch_id", "block_id", "latest"}

// parseEpochRef parses {"epoch_id"}, {"block_id"}, {"latest": null}, "latest", [block_id] or
// [null].
func parseEpochRef(v val) (ref view.EpochRef, err error) {
	if x, ok := single(v); ok {
		if x.isNull() {
			return ref, nil
		}
		ref.Kind = view.EpochByBlock
		ref.Block, err = readBlockID(x)
		return ref, err
	}
	err = oneKey(v, epochRefNames, func(i int) bool { return epochRefNames[i] == "latest" }, func(i int, x val) (err error) {
		switch epochRefNames[i] {
		case "epoch_id":
			ref.Kind = view.EpochByID
			ref.ID, err = readHash(x)
		case "block_id":
			ref.Kind = view.EpochByBlock
			ref.Block, err = readBlockID(x)
		}
		return err
	})
	return ref, err
}
