package wire

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// MaxHostShards is the maximum number of shards that a host may list. A peer that sends more is
// banned.
const MaxHostShards = 512

// SnapshotHost says which shards' state a node serves for an epoch. SyncHash is the hash of the
// block two before the sync block.
type SnapshotHost struct {
	PeerID      PeerID
	SyncHash    primitives.Hash
	EpochHeight uint64
	Shards      []primitives.ShardID
	Signature   primitives.Signature // signature over Hash by the node key

	proven verdict
}

// SnapshotHosts carries hosts: all known ones, or new ones.
type SnapshotHosts struct{ Hosts []*SnapshotHost }

// Kind returns KindSnapshotHosts.
func (*SnapshotHosts) Kind() Kind { return KindSnapshotHosts }

// NewSnapshotHost returns a signed entry of key's node.
func NewSnapshotHost(key primitives.SecretKey, sync primitives.Hash, epochHeight uint64, shards []primitives.ShardID) *SnapshotHost {
	s := &SnapshotHost{PeerID: key.PublicKey(), SyncHash: sync, EpochHeight: epochHeight, Shards: shards}
	h := s.Hash()
	s.Signature = key.Sign(h[:])
	return s
}

// Hash returns the hash that is signed: H(sync hash ‖ epoch height ‖ shards). The hash does not
// cover the peer id; only the signature's key binds the peer id.
func (s *SnapshotHost) Hash() primitives.Hash {
	b := borsh.AppendUint64(s.SyncHash.AppendBorsh(nil), s.EpochHeight)
	b = borsh.AppendSlice(b, s.Shards, func(b []byte, v *primitives.ShardID) []byte { return borsh.AppendUint64(b, uint64(*v)) })
	return primitives.HashBytes(b)
}

// Verify returns whether the host has signed the entry.
func (s *SnapshotHost) Verify() bool { return s.proven.or(s.verify) }

func (s *SnapshotHost) verify() bool {
	h := s.Hash()
	return s.Signature.Verify(h[:], s.PeerID)
}

func appendShards(b []byte, num uint32, shards []primitives.ShardID) []byte {
	for _, s := range shards { // neard does not use the packed encoding, and writes the value 0 too
		b = appendVarint(appendTag(b, num, varintType), uint64(s))
	}
	return b
}

func (m *SnapshotHosts) appendFields(b []byte) []byte {
	for _, s := range m.Hosts {
		b = appendMessage(b, 1, func(b []byte) []byte {
			b = appendUint(appendHash(appendBorsh(b, 1, s.PeerID), 2, &s.SyncHash), 3, s.EpochHeight)
			return appendBorsh(appendShards(b, 4, s.Shards), 5, s.Signature)
		})
	}
	return b
}

func readSnapshotHosts(in []byte) (Message, error) {
	m, c := new(SnapshotHosts), conversion{}
	for it := range c.items(snapshotHosts, in) {
		s := &SnapshotHost{PeerID: *borshOf[PeerID](&c, snapshotHostInfo, it.b, 1)}
		s.SyncHash = c.hashOf(snapshotHostInfo, it.b, 2)
		for f := range c.items(snapshotHostInfo, it.b) {
			switch f.num {
			case 3:
				s.EpochHeight = f.v
			case 4:
				if len(s.Shards) > MaxHostShards { // MaxHostShards + 1 shards are enough to ban the sender
					continue
				}
				s.Shards = append(s.Shards, primitives.ShardID(f.v))
			}
		}
		s.Signature = *borshOf[primitives.Signature](&c, snapshotHostInfo, it.b, 5)
		m.Hosts = append(m.Hosts, s)
	}
	return c.done(m)
}
