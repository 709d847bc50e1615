package headerchain

import (
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Row is the stored data of a header.
type Row struct {
	Header *primitives.BlockHeader
	Info   *epoch.BlockInfo
	Tree   *primitives.PartialMerkleTree // tree over the hashes of the blocks before Header
	// Final is the height of the block Header.LastFinalBlock, or the genesis height if that hash is
	// zero.
	Final primitives.Height
}

// AppendBorsh appends the stored form: the fields in order, then the ChunkProducers of Info, if
// there are any.
func (r *Row) AppendBorsh(b []byte) []byte {
	b = r.Tree.AppendBorsh(r.Info.AppendBorsh(r.Header.AppendBorsh(b)))
	return epoch.AppendChunkProducers(borsh.AppendUint64(b, uint64(r.Final)), r.Info)
}

// DecodeBorsh reads the stored form, which must extend to the end of the input. DecodeBorsh fails
// if the header and the BlockInfo in the encoding belong to two different headers.
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

// Store stores rows. A method returns nil (or false) without an error for a missing value. Returned
// values are shared and must not be changed.
type Store interface {
	Row(primitives.Hash) (*Row, error)
	EpochInfo(primitives.EpochID) (*epoch.EpochInfo, error)
	EpochStart(primitives.EpochID) (primitives.Height, bool, error)
	EpochSummary(primitives.EpochID) (*epoch.EpochSummary, error)
	// Aggregator returns statistics from which counting an epoch may continue (epoch.Store).
	Aggregator() (*epoch.Aggregator, error)
	// Put stores a header together with its epoch changes, atomically. head says that the header
	// becomes the head.
	Put(row *Row, changes *epoch.Changes, head bool) error
	// Begin stores the initial state from a proof, atomically. The last row becomes the head. After
	// a restart, the caller passes the last row as Options.Floor.
	Begin(*Start) error
	// Before returns Start.Before of the initial state, or nil if the store started from the
	// genesis.
	Before() (*epoch.BlockInfo, error)
}

// rows implements epoch.Store for a Store.
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
