package viewstate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage"
)

// EpochRequest selects epochs to print.
type EpochRequest struct {
	// By is one of Selections, and Value its value.
	By    string `json:"by"`
	Value string `json:"value,omitempty"`
	// Validator selects an account whose blocks and chunks are listed; empty: none.
	Validator primitives.AccountID `json:"validator_account_id,omitempty"`
	Kickouts  bool                 `json:"kickouts_summary,omitempty"` // print only kickouts
}

// Selections lists the ways to select epochs, and whether they have a value.
var Selections = []struct {
	Name  string
	Value bool
}{
	{"current", false}, {"all", false}, {"epoch-id", true}, {"epoch-height", true}, {"block-hash", true}, {"block-height", true},
	{"protocol-version", true},
}

type foundEpoch struct {
	id   primitives.EpochID
	info *epoch.EpochInfo
}

// epochInfo prints epochs in the order of their heights.
func epochInfo(ctx context.Context, e *engine.Engine, r *EpochRequest, out Out) error {
	list, err := findEpochs(e, r)
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b foundEpoch) int { return cmp.Compare(a.info.EpochHeight, b.info.EpochHeight) })
	for _, x := range list {
		if err := errors.Join(out.Line("-------------------------"), out.Line(fmt.Sprintf("EpochId: %v", x.id))); err != nil {
			return err
		}
		if r.Kickouts {
			err = printKickouts(x.info, out)
		} else {
			err = printEpoch(ctx, e, &x, r, out)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(out.Line("========================="), out.Line(fmt.Sprintf("Found %d epochs", len(list))))
}

// findEpochs returns the selected epochs.
func findEpochs(e *engine.Engine, r *EpochRequest) ([]foundEpoch, error) {
	number, hash := uint64(0), primitives.Hash{}
	var err error
	switch r.By {
	case "epoch-id", "block-hash":
		hash, err = primitives.ParseHash(r.Value)
	case "epoch-height", "block-height", "protocol-version":
		number, err = strconv.ParseUint(r.Value, 10, 64)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s %q: %w", ErrUsage, r.By, r.Value, err)
	}
	switch r.By {
	case "current":
		return oneEpoch(e, e.Head().Header().EpochID)
	case "epoch-id":
		return oneEpoch(e, hash)
	case "block-height":
		if hash, err = e.Store().HashAt(primitives.Height(number)); err != nil {
			return nil, err
		}
		fallthrough
	case "block-hash":
		b, err := e.Block(hash)
		if err != nil {
			return nil, err
		}
		return oneEpoch(e, b.Header().EpochID)
	case "all":
		return someEpochs(e, func(*epoch.EpochInfo) bool { return true })
	case "epoch-height":
		return someEpochs(e, func(i *epoch.EpochInfo) bool { return i.EpochHeight == number })
	case "protocol-version":
		return someEpochs(e, func(i *epoch.EpochInfo) bool { return uint64(i.ProtocolVersion) == number })
	}
	return nil, fmt.Errorf("%w: %q selects no epochs", ErrUsage, r.By)
}

func oneEpoch(e *engine.Engine, id primitives.EpochID) ([]foundEpoch, error) {
	x := foundEpoch{id: id}
	err := e.Epochs(func(m *epoch.Manager) (err error) {
		x.info, err = m.EpochInfo(id)
		return err
	})
	return []foundEpoch{x}, err
}

// someEpochs returns the epochs that match. The store has those of other branches, too. It has no row
// for the genesis's epoch, and those of the newest epochs may not be on disk yet.
func someEpochs(e *engine.Engine, match func(*epoch.EpochInfo) bool) (out []foundEpoch, err error) {
	h := e.Head().Header()
	seen := map[primitives.EpochID]bool{}
	for _, id := range []primitives.EpochID{{}, h.EpochID, h.NextEpochID} {
		list, err := oneEpoch(e, id)
		if err != nil {
			return nil, err
		}
		if !seen[id] && match(list[0].info) {
			out = append(out, list...)
		}
		seen[id] = true
	}
	var bad error
	err = e.Store().EachEpochInfo(func(id primitives.EpochID, raw []byte) bool {
		x := foundEpoch{id, new(epoch.EpochInfo)}
		if bad = borsh.Unmarshal(raw, x.info); bad == nil && !seen[id] && match(x.info) {
			out = append(out, x)
		}
		return bad == nil
	})
	return out, errors.Join(err, bad)
}

func printKickouts(info *epoch.EpochInfo, out Out) error {
	for _, x := range info.ValidatorKickout { // sorted by account
		if err := out.Line(fmt.Sprintf("%q: %s", x.Account, kickoutText(x.Value))); err != nil {
			return err
		}
	}
	return nil
}

func kickoutText(k epoch.KickoutReason) string {
	switch k.Kind {
	case epoch.NotEnoughBlocks, epoch.NotEnoughChunks, epoch.NotEnoughChunkEndorsements:
		return fmt.Sprintf("%v { produced: %d, expected: %d }", k.Kind, k.Produced, k.Expected)
	case epoch.NotEnoughStake:
		return fmt.Sprintf("%v { stake: %v, threshold: %v }", k.Kind, k.Stake, k.Threshold)
	case epoch.ProtocolVersionTooOld:
		return fmt.Sprintf("%v { version: %d, network_version: %d }", k.Kind, k.Version, k.NetworkVersion)
	}
	return k.Kind.String()
}

// printEpoch prints an epoch, and the producers of its blocks and chunks.
func printEpoch(ctx context.Context, e *engine.Engine, x *foundEpoch, r *EpochRequest, out Out) error {
	if err := errors.Join(out.Line(fmt.Sprintf("Epoch Height: %d", x.info.EpochHeight)),
		out.Line(fmt.Sprintf("Protocol Version: %d", x.info.ProtocolVersion))); err != nil {
		return err
	}
	from, to, err := heightsOf(e, x.id)
	if errors.Is(err, epoch.ErrEpochOutOfBounds) || errors.Is(err, storage.ErrNotFound) {
		return out.Line("The epoch has not begun yet, or this node has no block of it.")
	}
	if err != nil {
		return err
	}
	if err := out.Line(fmt.Sprintf("Epoch Height Range: [%d..%d)", from, to)); err != nil {
		return err
	}
	if r.Validator != "" {
		if err := printValidator(ctx, e, x, r.Validator, from, to, out); err != nil {
			return err
		}
	}
	if err := out.Line("---"); err != nil {
		return err
	}
	return eachSlot(ctx, e, x.id, from, to, func(at primitives.Height, block primitives.AccountID, _ []primitives.ShardID,
		chunks []primitives.AccountID) error {
		names := make([]string, len(chunks))
		for i, id := range chunks {
			names[i] = strconv.Quote(string(id))
		}
		if err := out.Line(fmt.Sprintf("%d: BP=%q CP=[%s]", at, block, strings.Join(names, ", "))); err != nil {
			return err
		}
		return out.Progress(uint64(at-from)+1, uint64(to-from))
	})
}

// eachSlot calls f with the producers of each height: that of the block, and those of the chunks by
// shard index.
func eachSlot(ctx context.Context, e *engine.Engine, id primitives.EpochID, from, to primitives.Height,
	f func(primitives.Height, primitives.AccountID, []primitives.ShardID, []primitives.AccountID) error) error {
	for at := from; at < to; at++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		var block primitives.AccountID
		var shards []primitives.ShardID
		var chunks []primitives.AccountID
		if err := e.Epochs(func(m *epoch.Manager) error {
			p, err := m.BlockProducer(id, at)
			if err != nil {
				return err
			}
			layout, err := m.ShardLayout(id)
			if err != nil {
				return err
			}
			block, shards = p.AccountID, layout.ShardIDs()
			for _, shard := range shards {
				c, err := m.CanonicalChunkProducer(id, shard, at)
				if err != nil {
					return err
				}
				chunks = append(chunks, c.AccountID)
			}
			return nil
		}); err != nil {
			return err
		}
		if err := f(at, block, shards, chunks); err != nil {
			return err
		}
	}
	return nil
}

// heightsOf returns the heights of an epoch. to is the first height after it. The heights of the
// head's epoch end where it will probably end.
func heightsOf(e *engine.Engine, id primitives.EpochID) (from, to primitives.Height, err error) {
	head := e.Head()
	length := uint64(0)
	if err := e.Epochs(func(m *epoch.Manager) (err error) {
		if from, err = m.EpochStart(id); err != nil {
			return err
		}
		c, err := m.EpochConfig(id)
		if err == nil {
			length = c.EpochLength
		}
		return err
	}); err != nil {
		return 0, 0, err
	}
	if head.Header().EpochID == id {
		return from, max(head.Height()+1, from+primitives.Height(length)), nil
	}
	n := sort.Search(int(head.Height()-min(from, head.Height())), func(i int) bool {
		var ref storage.BlockRef
		var rec *storage.Record
		if err == nil {
			ref, err = e.Store().NextBlock(from + primitives.Height(i))
		}
		if err == nil {
			rec, err = e.Store().BlockByHash(ref.Hash)
		}
		return err != nil || rec.Epoch() != id
	})
	if err == nil && n == 0 { // all blocks of the epoch were collected
		err = storage.ErrNotFound
	}
	return from, from + primitives.Height(n), err
}

// printValidator prints what a validator had to produce in an epoch, and the chunks that are missing.
func printValidator(
	ctx context.Context, e *engine.Engine, x *foundEpoch, account primitives.AccountID, from, to primitives.Height, out Out,
) error {
	for _, k := range x.info.ValidatorKickout {
		if k.Account == account {
			if err := out.Line(fmt.Sprintf("Validator %s kickout: %s", account, kickoutText(k.Value))); err != nil {
				return err
			}
		}
	}
	if !slices.ContainsFunc(x.info.Validators, func(v primitives.ValidatorStake) bool { return v.AccountID == account }) {
		return out.Line(fmt.Sprintf("Validator %s didn't validate in epoch #%d", account, x.info.EpochHeight))
	}
	var blocks, chunks, missing []string
	err := eachSlot(ctx, e, x.id, from, to, func(at primitives.Height, block primitives.AccountID,
		shards []primitives.ShardID, producers []primitives.AccountID) error {
		if block == account {
			blocks = append(blocks, strconv.FormatUint(uint64(at), 10))
		}
		for i, id := range producers {
			if id != account {
				continue
			}
			slot := fmt.Sprintf("(%d, %d)", at, shards[i])
			chunks = append(chunks, slot)
			is, err := lacksChunk(e, at, i)
			if err != nil {
				return err
			}
			if is {
				missing = append(missing, slot)
			}
		}
		return out.Progress(uint64(at-from)+1, uint64(to-from))
	})
	if err != nil {
		return err
	}
	return errors.Join(out.Line(fmt.Sprintf("Block producer for %d blocks: [%s]", len(blocks), strings.Join(blocks, ", "))),
		out.Line(fmt.Sprintf("Chunk producer for %d chunks: [%s]", len(chunks), strings.Join(chunks, ", "))),
		out.Line(fmt.Sprintf("Missing %d chunks: [%s]", len(missing), strings.Join(missing, ", "))))
}

// lacksChunk returns whether a height up to the head has no new chunk of a shard. It returns false for
// heights that were collected.
func lacksChunk(e *engine.Engine, at primitives.Height, shard int) (bool, error) {
	if at > e.Head().Height() || at < e.Store().Tip().Tail {
		return false, nil
	}
	hash, err := e.Store().HashAt(at)
	if errors.Is(err, storage.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	b, err := e.Block(hash)
	if err != nil {
		return false, err
	}
	list := b.Block.Body.Chunks
	return shard < len(list) && list[shard].HeightIncluded != at, nil
}
