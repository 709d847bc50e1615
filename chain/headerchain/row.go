package headerchain

import (
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Row is what is stored of a header.
type Row struct {
	Header *primitives.BlockHeader
	Info   *epoch.BlockInfo
	Tree   *primitives.PartialMerkleTree // of the blocks before it
	// height of Header.LastFinalBlock; the genesis height while there is none
	Final primitives.Height
}

// AppendBorsh appends the fields in order, and after them the ChunkProducers of Info, if it has any.
func (r *Row) AppendBorsh(b []byte) []byte {
	b = r.Tree.AppendBorsh(r.Info.AppendBorsh(r.Header.AppendBorsh(b)))
	return epoch.AppendChunkProducers(borsh.AppendUint64(b, uint64(r.Final)), r.Info)
}

// DecodeBorsh reads the fields. It must be given all remaining bytes. It fails if they are not of
// the same header.
func (r *Row) DecodeBorsh(in *borsh.Reader) {
	*r = Row{Header: new(primitives.BlockHeader), Info: new(epoch.BlockInfo), Tree: new(primitives.PartialMerkleTree)}
	r.Header.DecodeBorsh(in)
	r.Info.DecodeBorsh(in)
	r.Tree.DecodeBorsh(in)
	r.Final = primitives.Height(in.Uint64())
	epoch.ReadChunkProducers(in, r.Info)
	if in.Err() == nil && (r.Info.Hash != r.Header.Hash() || r.Info.Height != r.Header.Height) {
		in.Failf("BlockInfo of %v beside header %v", r.Info.Hash, r.Header.Hash())
	}
}

// Store stores the rows. A missing value is nil (or false) without an error. Values are shared and
// must not be changed.
type Store interface {
	Row(primitives.Hash) (*Row, error)
	EpochInfo(primitives.EpochID) (*epoch.EpochInfo, error)
	EpochStart(primitives.EpochID) (primitives.Height, bool, error)
	EpochSummary(primitives.EpochID) (*epoch.EpochSummary, error)
	// Put stores a header with its epoch changes, atomically. head: it is the new head.
	Put(row *Row, changes *epoch.Changes, head bool) error
	// Begin stores the initial state from a proof, atomically. The last row is the new head and the
	// next Options.Floor.
	Begin(*Start) error
	// Before returns Start.Before of the store's initial state; nil: it started from genesis.
	Before() (*epoch.BlockInfo, error)
}

// rows is a Store as the epoch manager uses it.
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
