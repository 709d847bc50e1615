package network

import (
	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// check judges what a transport spreads, before it is handed on. It is called from goroutines of the host.
func (a *Actor) check(m wire.Message) near.Verdict {
	switch m := m.(type) {
	case *wire.Block:
		return a.checkBlock(m.Block)
	case *wire.Transaction:
		hash := m.Transaction.Hash()
		if !m.Transaction.Signature.Verify(hash[:], m.Transaction.PublicKey) {
			return near.Refuse
		}
		return near.Pass
	}
	return near.Hold
}

// checkBlock hands a block on whose parent is known and which the producer of its height has signed with this body. Who has the parent
// comes to the same end, so that nobody is banned for what he could not know.
func (a *Actor) checkBlock(b *primitives.Block) near.Verdict {
	e, h := a.o.Engine, b.Header
	if e.Adopted(b.Hash()) != nil {
		return near.Hold
	}
	parent := e.Adopted(h.PrevHash)
	if parent == nil || h.Height <= e.TipFinal().Height {
		return near.Hold
	}
	verdict := near.Hold
	_ = e.Epochs(func(m *epoch.Manager) error {
		id, err := m.EpochIDFromPrev(parent.Hash)
		if err != nil {
			return err
		}
		v, err := m.BlockProducer(id, h.Height)
		if err != nil {
			return err
		}
		layout, err := m.ShardLayout(id)
		if err != nil {
			return err
		}
		verdict = near.Pass
		if h.EpochID != id || h.Height <= parent.Height() || chain.ValidateOrigin(b, v.PublicKey, layout.NumShards(), verify) != nil {
			verdict = near.Refuse
		}
		return nil
	})
	return verdict
}

func verify(s primitives.Signature, data []byte, key primitives.PublicKey) bool {
	return s.Verify(data, key)
}
