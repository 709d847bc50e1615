package headerchain

import (
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Row is what is kept of a header.
type Row struct {
	Header *primitives.BlockHeader
	Info   *epoch.BlockInfo
	Tree   *primitives.PartialMerkleTree // of the blocks before
	Final  primitives.Height             // of Header.LastFinalBlock; the genesis's while there is none
}

// AppendBorsh appends the parts in order.
func (r *Row) AppendBorsh(b []byte) []byte {
	b = r.Tree.AppendBorsh(r.Info.AppendBorsh(r.Header.AppendBorsh(b)))
	return borsh.AppendUint64(b, uint64(r.Final))
}

// DecodeBorsh reads them. The parts must be of one header.
func (r *Row) DecodeBorsh(in *borsh.Reader) {
	*r = Row{Header: new(primitives.BlockHeader), Info: new(epoch.BlockInfo), Tree: new(primitives.PartialMerkleTree)}
	r.Header.DecodeBorsh(in)
	r.Info.DecodeBorsh(in)
	r.Tree.DecodeBorsh(in)
	r.Final = primitives.Height(in.Uint64())
	if in.Err() == nil && (r.Info.Hash != r.Header.Hash() || r.Info.Height != r.Header.Height) {
		in.Failf("BlockInfo of %v beside header %v", r.Info.Hash, r.Header.Hash())
	}
}

// Store keeps the rows. An absent one is nil (or false) without an error. The values are shared and do not change.
type Store interface {
	Row(primitives.Hash) (*Row, error)
	EpochInfo(primitives.EpochID) (*epoch.EpochInfo, error)
	EpochStart(primitives.EpochID) (primitives.Height, bool, error)
	EpochSummary(primitives.EpochID) (*epoch.EpochSummary, error)
	// Put keeps a header with what it adds to the epochs; head tells that it is the head from now on. All of it or nothing.
	Put(row *Row, changes *epoch.Changes, head bool) error
	// Begin keeps what a chain begins with that a proof has shown: the last row is the head, and Options.Floor. All of it or nothing.
	Begin(*Start) error
	// Before is Start.Before of what the chain began with, if it began so.
	Before() (*epoch.BlockInfo, error)
}

// rows shows a Store to the epoch manager.
type rows struct{ Store }

func (s rows) BlockInfo(hash primitives.Hash) (*epoch.BlockInfo, error) {
	r, err := s.Row(hash)
	if err != nil {
		return nil, err
	}
	if r != nil {
		return r.Info, nil
	}
	b, err := s.Before()
	if err != nil || b == nil || b.Hash != hash {
		return nil, err
	}
	return b, nil
}
