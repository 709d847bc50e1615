package storage

import (
	"encoding/binary"
	"errors"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Split says that, from some block on, two child shards replace one shard of the parent block's
// layout.
//
// In Flat, keys of accounts stay as they are, because these keys do not contain the shard. Keys of
// shard-bound columns (shardBound) contain the shard, so the children get copies of the rows that
// they inherit. The rows of the parent shard, as of its last block, stay in Flat until garbage
// collection has passed that block. So the states of the parent shard before the split stay
// readable, and the history of the children's rows begins with the children's first block.
type Split struct {
	// ids of the split shard and its children; Left has the accounts below the boundary
	Parent, Left, Right primitives.ShardID
}

// inherits returns whether a child of a split shard inherits the parent's rows of a column.
// Buffered receipts go only to the left child (nearcore core/store/src/trie/ops/resharding.rs:33).
func (s *Split) inherits(child primitives.ShardID, col byte) bool {
	switch primitives.TrieColumn(col) {
	case primitives.ColBufferedReceiptIndices, primitives.ColBufferedReceipt, primitives.ColBufferedGroups, primitives.ColBufferedGroup:
		return child == s.Left
	}
	return true
}

// splitOf returns the split in list that created a shard, or nil if none did.
func splitOf(list []Split, shard primitives.ShardID) *Split {
	for i := range list {
		if s := &list[i]; s.Left == shard || s.Right == shard {
			return s
		}
	}
	return nil
}

// AppendBorsh appends three varints.
func (s *Split) AppendBorsh(b []byte) []byte {
	for _, id := range [...]primitives.ShardID{s.Parent, s.Left, s.Right} {
		b = binary.AppendUvarint(b, uint64(id))
	}
	return b
}

// DecodeBorsh reads three varints.
func (s *Split) DecodeBorsh(r *borsh.Reader) {
	*s = Split{primitives.ShardID(readUvarint(r)), primitives.ShardID(readUvarint(r)), primitives.ShardID(readUvarint(r))}
}

// checkSplits returns an error if a block cannot have these splits.
func (b *Block) checkSplits() error {
	has := func(id primitives.ShardID) bool {
		for i := range b.Shards {
			if b.Shards[i].ID == id {
				return true
			}
		}
		return false
	}
	for i := range b.Splits {
		s := &b.Splits[i]
		if has(s.Parent) || !has(s.Left) || !has(s.Right) || s.Left == s.Right {
			return errors.New("a split names a parent shard that is still in the block's layout, or a child shard that is not")
		}
		for j := range i {
			if o := &b.Splits[j]; o.Parent == s.Parent || splitOf(b.Splits[j:j+1], s.Left) != nil ||
				splitOf(b.Splits[j:j+1], s.Right) != nil {
				return errors.New("two splits name the same shard as parent or child")
			}
		}
	}
	return nil
}

// shardColumns calls f for the range in Flat of each shard-bound column of a shard.
func shardColumns(shard primitives.ShardID, f func(col byte, lo, hi []byte) error) error {
	for col := range byte(maxTrieColumn + 1) {
		if !shardBound(col) {
			continue
		}
		lo := []byte(flatKey(shard, []byte{col}))
		if err := f(col, lo, PrefixEnd(lo)); err != nil {
			return err
		}
	}
	return nil
}

// copyRows writes the rows of the children of split shards. The flat head must be the parent of the
// block with the split. copyRows writes in pieces, before the advance of the flat head past that
// block. Until the advance is complete nothing reads these rows, and after a crash they are written
// again.
func copyRows(db index, splits []Split) error {
	var batch Batch
	flush := func(least int) error {
		if batch.Size() < least || batch.Len() == 0 {
			return nil
		}
		err := db.write(&batch, false)
		batch.Reset()
		return err
	}
	for i := range splits {
		x := &splits[i]
		err := shardColumns(x.Parent, func(col byte, lo, hi []byte) error {
			var werr error
			err := flat.Scan(db, lo, hi, func(key []byte, v packed) bool {
				for _, child := range [...]primitives.ShardID{x.Left, x.Right} {
					if x.inherits(child, col) {
						flat.Put(&batch, flatKey(child, trieKey(key)), &v)
					}
				}
				werr = flush(historyBatch)
				return werr == nil
			})
			return errors.Join(err, werr)
		})
		if err != nil {
			return err
		}
	}
	return flush(0)
}

// copyFrontier writes the frontiers of the child shards in pieces, like copyRows, because one batch
// cannot hold a row for each subtree of the whole state. copyFrontier first removes the rows that
// an interrupted advance has left, possibly with rows for a block of another branch.
func copyFrontier(db index, splits []Split, changes []FrontierChange) error {
	for i := range splits {
		for _, child := range [...]primitives.ShardID{splits[i].Left, splits[i].Right} {
			if err := dropFrontier(db, child); err != nil {
				return err
			}
		}
	}
	var batch Batch
	flush := func(least int) (err error) {
		if batch.Size() >= least && batch.Len() > 0 {
			err = db.write(&batch, false)
			batch.Reset()
		}
		return err
	}
	for i := range changes {
		c := &changes[i]
		if splitOf(splits, c.Shard) == nil || c.Removed {
			continue
		}
		putFrontierNode(&batch, c.Shard, &c.FrontierNode)
		if err := flush(historyBatch); err != nil {
			return err
		}
	}
	return flush(0)
}

// dropFrontier deletes the frontier of a shard in pieces. The flat head's layout must not contain
// the shard.
func dropFrontier(db index, shard primitives.ShardID) error {
	lo := append([]byte{frontier.id}, appendShard(nil, shard)...) // all levels
	return dropRange(db, lo, PrefixEnd(lo))
}

// dropRows deletes the frontier of a shard and the shard's rows in shard-bound columns.
func dropRows(db index, batch *Batch, shard primitives.ShardID) error {
	if err := dropFrontier(db, shard); err != nil {
		return err
	}
	return shardColumns(shard, func(_ byte, lo, hi []byte) error {
		return deleteRange(db, batch, append([]byte{flat.id}, lo...), append([]byte{flat.id}, hi...))
	})
}

// shards deletes the remaining rows of the shards that were split at or below the tail. All
// blocks with such a shard are collected.
func (c *collection) shards(tail primitives.Height) error {
	var derr error
	err := splitParents.Scan(c.s.db, nil, appendHeight(nil, tail+1), func(key []byte, _ Nothing) bool {
		k := splitKey{heightOf(key), primitives.ShardID(binary.BigEndian.Uint64(key[8:]))}
		splitParents.Delete(&c.batch, k)
		if _, ok := c.s.view.Load().shards[k.shard]; ok {
			shardCells.Delete(&c.batch, k.shard)
			c.s.setShard(k.shard, nil)
		}
		derr = dropRows(c.s.db, &c.batch, k.shard)
		return derr == nil
	})
	return errors.Join(err, derr)
}

// splitKey names a split shard by the shard's ID and the first block whose layout lacks the shard.
type splitKey struct {
	height primitives.Height
	shard  primitives.ShardID
}

func appendSplitKey(b []byte, k splitKey) []byte {
	return binary.BigEndian.AppendUint64(appendHeight(b, k.height), uint64(k.shard))
}
