package state

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// GroupSizeLimit is the size in bytes that a group of buffered receipts should not exceed (nearcore
// outgoing_metadata.rs ReceiptGroupsConfig). nearcore's limit on the gas of a group has no effect.
const GroupSizeLimit = 100_000

// Groups describes the groups of a buffer: consecutive receipts of the buffer form a group
// (nearcore core/store/src/trie/outgoing_metadata.rs). All sums are checked; a sum overflows only
// in a corrupt state.
type Groups struct {
	Shard primitives.ShardID // shard to which the buffered receipts go
	QueueIndices
	TotalSize uint64
	TotalGas  primitives.Balance // amount of gas; a 128-bit number, as in nearcore
	Receipts  uint64
}

// Group is one group of consecutive receipts.
type Group struct {
	Size uint64
	Gas  primitives.Balance // amount of gas; a 128-bit number, as in nearcore
}

// Groups reads the groups of the buffer towards a shard; nil if there are none.
func (u *TrieUpdate) Groups(to primitives.ShardID) (*Groups, error) {
	u.key = primitives.AppendBufferedGroupsKey(u.key[:0], to)
	value, err := u.Get(u.key)
	if value == nil || err != nil {
		return nil, err
	}
	r := borsh.NewReader(value)
	if tag := r.Byte(); tag != 0 {
		r.BadTag("ReceiptGroupsQueueData", tag)
	}
	g := &Groups{Shard: to, QueueIndices: readIndices(r), TotalSize: r.Uint64(), TotalGas: primitives.ReadBalance(r), Receipts: r.Uint64()}
	if err := r.Close(); err != nil {
		return nil, Inconsistent("groups towards shard %d: %w", to, err)
	}
	return g, nil
}

func (u *TrieUpdate) writeGroups(g *Groups) {
	u.values.room(0)
	from := len(u.values.buf)
	b := g.appendBorsh(append(u.values.buf, 0))
	b = g.TotalGas.AppendBorsh(borsh.AppendUint64(b, g.TotalSize))
	u.values.buf = borsh.AppendUint64(b, g.Receipts)
	u.key = primitives.AppendBufferedGroupsKey(u.key[:0], g.Shard)
	u.Set(u.key, u.values.take(from))
}

// Group reads one group, which must exist.
func (u *TrieUpdate) Group(to primitives.ShardID, index uint64) (g Group, err error) {
	u.key = primitives.AppendBufferedGroupKey(u.key[:0], to, index)
	value, err := u.Get(u.key)
	if err != nil {
		return g, err
	}
	if value == nil {
		return g, Inconsistent("group #%d towards shard %d should be in the state", index, to)
	}
	r := borsh.NewReader(value)
	if tag := r.Byte(); tag != 0 {
		r.BadTag("ReceiptGroup", tag)
	}
	g = Group{r.Uint64(), primitives.ReadBalance(r)}
	if err := r.Close(); err != nil {
		return g, Inconsistent("group #%d towards shard %d: %w", index, to, err)
	}
	return g, nil
}

func (u *TrieUpdate) setGroup(to primitives.ShardID, index uint64, g Group) {
	u.values.room(0)
	from := len(u.values.buf)
	u.values.buf = g.Gas.AppendBorsh(borsh.AppendUint64(append(u.values.buf, 0), g.Size))
	u.key = primitives.AppendBufferedGroupKey(u.key[:0], to, index)
	u.Set(u.key, u.values.take(from))
}

// PushGrouped adds a receipt that enters a buffer to the last group. If the last group would grow
// too large, PushGrouped adds a new group.
func (u *TrieUpdate) PushGrouped(g *Groups, size uint64, gas primitives.Gas) error {
	var ok bool
	if g.TotalGas, ok = g.TotalGas.Add(primitives.Yocto(uint64(gas))); !ok || g.TotalSize+size < size {
		return Inconsistent("groups towards shard %d: %w", g.Shard, primitives.ErrOverflow)
	}
	g.TotalSize += size
	g.Receipts++
	next := Group{size, primitives.Yocto(uint64(gas))}
	if g.Len() > 0 {
		last, err := u.Group(g.Shard, g.Next-1)
		if err != nil {
			return err
		}
		if last.Size+size > GroupSizeLimit {
			u.setGroup(g.Shard, g.Next-1, last) // nearcore records a change here even if the value stays equal
		} else {
			g.Next--
			next.Size += last.Size
			if next.Gas, ok = last.Gas.Add(next.Gas); !ok {
				return Inconsistent("group towards shard %d: %w", g.Shard, primitives.ErrOverflow)
			}
		}
	}
	u.setGroup(g.Shard, g.Next, next)
	g.Next++
	u.writeGroups(g)
	return nil
}

// PopGrouped records that a receipt left a buffer: it subtracts the receipt's size and gas from the
// first group. If the first group is then empty, PopGrouped removes the group.
func (u *TrieUpdate) PopGrouped(g *Groups, size uint64, gas primitives.Gas) error {
	amount := primitives.Yocto(uint64(gas))
	var ok bool
	if g.TotalGas, ok = g.TotalGas.Sub(amount); !ok || g.TotalSize < size || g.Receipts == 0 || g.Len() == 0 {
		return Inconsistent("groups towards shard %d count less than leaves", g.Shard)
	}
	g.TotalSize -= size
	g.Receipts--
	first, err := u.Group(g.Shard, g.First)
	if err != nil {
		return err
	}
	if first.Gas, ok = first.Gas.Sub(amount); !ok || first.Size < size {
		return Inconsistent("group #%d towards shard %d counts less than leaves", g.First, g.Shard)
	}
	if first.Size -= size; first.Size > 0 {
		u.setGroup(g.Shard, g.First, first)
	} else {
		u.key = primitives.AppendBufferedGroupKey(u.key[:0], g.Shard, g.First)
		u.Remove(u.key)
		g.First++
	}
	u.writeGroups(g)
	return nil
}
