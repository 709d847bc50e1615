package apply

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/bandwidth"
	"github.com/troupe-chain/troupe/runtime/congestion"
	"github.com/troupe-chain/troupe/runtime/fees"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// sink sends receipts to other shards (nearcore congestion_control.rs). A sink forwards receipts as
// far as congestion control and the bandwidth scheduler allow. A sink stores the remaining receipts
// in buffers in the state.
type sink struct {
	params    bandwidth.Params
	grants    bandwidth.Grants
	own       primitives.CongestionInfo
	admission congestion.Admission
	links     []link // links to the shards of the layout, by index
	buffers   state.Buffers
	groups    []*state.Groups // metadata of the receipt groups of each buffer that has groups
	outgoing  []*primitives.Receipt
}

// link has the limits towards one shard and the receipts that were forwarded to that shard.
type link struct {
	limit    congestion.Limit
	receipts []*primitives.Receipt
	bytes    []byte // u64 shard ‖ u32 space for the number of receipts ‖ encodings
}

const (
	linkHeader    = 8 + 4 // bytes of link.bytes before the receipts
	commonReceipt = 256   // approximate size of an encoded transfer or refund in bytes
)

// openSink reads the indices and groups of the buffers and computes the limits towards each shard.
func (c *chunk) openSink() (err error) {
	in, s := c.in, &c.sink
	s.own = in.ownCongestion().Info
	s.admission = congestion.NewAdmission(c.cfg)
	if s.buffers, err = c.u.Buffers(); err != nil {
		return err
	}
	for i := range s.buffers {
		g, err := c.u.Groups(s.buffers[i].Shard)
		if err != nil {
			return err
		}
		if g != nil {
			s.groups = append(s.groups, g)
		}
	}
	ids := in.Layout.ShardIDs()
	s.links = make([]link, len(ids))
	for i, id := range ids {
		l := &s.links[i]
		l.limit.Gas = congestion.Unlimited // not changed for shards without congestion info, whose limit.Size is 0
		room := linkHeader + commonReceipt*(len(in.Transactions)+len(in.Incoming))/len(ids)
		l.bytes = append(borsh.AppendUint64(make([]byte, 0, room), uint64(id)), 0, 0, 0, 0)
		for j := range in.Congestion {
			if in.Congestion[j].Shard != id {
				continue
			}
			l.limit.Size = s.grants.Get(in.Block.ShardID, id)
			if id != in.Block.ShardID { // there is no gas limit for receipts to the own shard
				l.limit.Gas = c.control(&in.Congestion[j]).OutgoingGasLimit(in.Block.ShardID)
			}
		}
	}
	return nil
}

func (c *chunk) control(s *ShardCongestion) *congestion.Control {
	return &congestion.Control{Config: &c.cfg.CongestionControl, Info: s.Info, Missed: s.Missed}
}

// target returns the index of the shard that a receipt goes to (nearcore receipt.rs:437).
func target(l primitives.ShardLayout, r *primitives.Receipt) (primitives.ShardIndex, error) {
	var id primitives.ShardID
	if d, ok := r.Body.(*primitives.GlobalContractDistribution); ok {
		id = d.TargetShard // may be a shard that was split since
		if !l.Has(id) {
			if id, ok = l.ResolveToCurrent(d.TargetShard); !ok {
				return 0, fmt.Errorf("apply: %w: target shard %d of a global contract distribution",
					primitives.ErrUnknownShard, d.TargetShard)
			}
		}
	} else {
		id = l.ShardOf(r.ReceiverID)
	}
	return l.Index(id)
}

// send forwards a receipt, or buffers it if a limit is reached. send returns whether it forwarded
// the receipt.
func (c *chunk) send(r *primitives.Receipt) (forwarded bool, err error) {
	gas, err := fees.ReceiptGas(c.cfg, r)
	if err != nil {
		return false, err
	}
	to, err := target(c.in.Layout, r)
	if err != nil {
		return false, err
	}
	l := &c.links[to]
	from := len(l.bytes)
	l.bytes = r.AppendBorsh(l.bytes)
	size := uint64(len(l.bytes) - from)
	if l.limit.Forward(c.admission, gas, size) {
		l.receipts = append(l.receipts, r)
		c.outgoing = append(c.outgoing, r)
		c.res.Stats.Forwarded++
		return true, nil
	}
	l.bytes = l.bytes[:from]
	return false, c.buffer(r, c.in.Layout.ShardIDs()[to], gas, size)
}

// sendOf sends a receipt that the transaction or receipt parent created.
func (c *chunk) sendOf(parent primitives.Hash, r *primitives.Receipt) error {
	forwarded, err := c.send(r)
	if !forwarded && err == nil {
		c.originates(r, parent)
	}
	return err
}

// originates records the origin of a receipt.
func (c *chunk) originates(r *primitives.Receipt, parent primitives.Hash) {
	c.res.Origins = append(c.res.Origins, Origin{r.ID, parent})
}

// buffer stores a receipt that cannot be forwarded in this chunk.
func (c *chunk) buffer(r *primitives.Receipt, to primitives.ShardID, gas primitives.Gas, size uint64) error {
	account := congestion.Account{Info: &c.own}
	if err := account.AddBytes(size); err != nil {
		return err
	}
	if err := account.AddBufferedGas(gas); err != nil {
		return err
	}
	g := c.groupsOf(to)
	if g == nil {
		g = &state.Groups{Shard: to}
		c.groups = append(c.groups, g)
	}
	if err := c.u.PushGrouped(g, size, gas); err != nil {
		return err
	}
	c.u.PushBuffered(&c.buffers, to, stored(r, gas, size))
	c.res.Stats.Buffered++
	return nil
}

func stored(r *primitives.Receipt, gas primitives.Gas, size uint64) *primitives.StoredReceipt {
	return &primitives.StoredReceipt{
		Receipt: *r, HasMetadata: true, Metadata: primitives.ReceiptMetadata{CongestionGas: gas, CongestionSize: size},
	}
}

func (s *sink) groupsOf(to primitives.ShardID) *state.Groups {
	for _, g := range s.groups {
		if g.Shard == to {
			return g
		}
	}
	return nil
}

// forwardBuffers sends receipts that previous chunks of the shard have buffered: first towards the
// parents of split shards, then in layout order.
func (c *chunk) forwardBuffers() error {
	empty := true
	for _, ids := range [...][]primitives.ShardID{c.in.Layout.SplitParents(), c.in.Layout.ShardIDs()} {
		for _, id := range ids {
			if err := c.forwardBuffer(id); err != nil {
				return err
			}
			empty = empty && c.buffers.To(id).Len() == 0
		}
	}
	if empty && !c.own.BufferedReceiptsGas.IsZero() {
		return state.Inconsistent("all buffers are empty, yet %v gas is buffered", c.own.BufferedReceiptsGas)
	}
	return nil
}

// forwardBuffer sends receipts from one buffer until a receipt does not fit. forwardBuffer also
// reads, and thus records, the receipt that does not fit.
func (c *chunk) forwardBuffer(shard primitives.ShardID) error {
	account := congestion.Account{Info: &c.own}
	q := c.buffers.To(shard)
	var counted []primitives.ReceiptMetadata
	n := uint64(0)
	for ; n < q.Len(); n++ {
		x, err := c.u.BufferedReceipt(shard, q.First+n)
		if err != nil {
			return err
		}
		m, err := metadata(c.cfg, x)
		if err != nil {
			return err
		}
		to, err := target(c.in.Layout, &x.Receipt)
		if err != nil {
			return err
		}
		l := &c.links[to]
		if !l.limit.Forward(c.admission, m.CongestionGas, m.CongestionSize) {
			break
		}
		l.bytes = x.Receipt.AppendBorsh(l.bytes)
		l.receipts = append(l.receipts, &x.Receipt)
		c.outgoing = append(c.outgoing, &x.Receipt)
		c.res.Stats.Forwarded++
		if err := account.RemoveBytes(m.CongestionSize); err != nil {
			return err
		}
		if err := account.RemoveBufferedGas(m.CongestionGas); err != nil {
			return err
		}
		if x.HasMetadata && !x.Ungrouped { // not set if the receipt was buffered before groups existed
			counted = append(counted, m)
		}
	}
	c.u.PopBuffered(&c.buffers, shard, n)
	for _, m := range counted {
		g := c.groupsOf(shard)
		if g == nil {
			return state.Inconsistent("no groups towards shard %d", shard)
		}
		if err := c.u.PopGrouped(g, m.CongestionSize, m.CongestionGas); err != nil {
			return err
		}
	}
	return nil
}

// metadata returns the gas and size that a stored receipt added to the congestion info when it was
// stored. For a receipt without stored metadata, metadata computes the gas and size.
func metadata(cfg *parameters.RuntimeConfig, x *primitives.StoredReceipt) (primitives.ReceiptMetadata, error) {
	if x.HasMetadata {
		return x.Metadata, nil
	}
	gas, err := fees.ReceiptGas(cfg, &x.Receipt)
	return primitives.ReceiptMetadata{CongestionGas: gas, CongestionSize: uint64(len(x.Receipt.AppendBorsh(nil)))}, err
}

// groupedBy returns the forwarded receipts by receiving shard, with the hashes of their encodings.
func (s *sink) groupedBy(ids []primitives.ShardID) []Outgoing {
	out := make([]Outgoing, len(ids))
	for i := range s.links {
		l := &s.links[i]
		// Fill in the reserved space for the number of receipts.
		borsh.AppendUint32(l.bytes[:8], uint32(len(l.receipts)))
		out[i] = Outgoing{Shard: ids[i], Receipts: l.receipts, Hash: primitives.HashBytes(l.bytes)}
	}
	return out
}

func (c *chunk) grouped() []Outgoing { return c.groupedBy(c.in.Layout.ShardIDs()) }

// OutgoingRoot returns prev_outgoing_receipts_root of the next chunk header: the Merkle root over
// the groups' hashes, each hashed again as a leaf.
func OutgoingRoot(groups []Outgoing) primitives.Hash {
	leaves := make([]primitives.Hash, len(groups))
	for i := range groups {
		leaves[i] = primitives.HashBytes(groups[i].Hash[:])
	}
	return primitives.MerkleRoot(leaves)
}
