//go:build e2e

package e2e

import (
	"slices"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// rightForms are forms that neard accepts.
var rightForms = []blockForm{
	{"V6", true, func(*forgedBlock) bool { return true }},
	header("V5", true, func(h *primitives.BlockHeader) { h.Version = primitives.HeaderV5 }),
	header("V7", true, func(h *primitives.BlockHeader) {
		h.Version, h.EndorsementStats = primitives.HeaderV7, []primitives.EndorsementStats{{Produced: 7, Expected: 1}}
	}),
	header("V7 of 160 KB", true, func(h *primitives.BlockHeader) {
		h.Version, h.CertifiedEpochID, h.EndorsementStats = primitives.HeaderV7, primitives.Hash{1}, make([]primitives.EndorsementStats, 20_000)
	}),
	{"challenge of two headers", true, func(x *forgedBlock) bool { return x.challenged(double(0), double(200)) }},
	{"challenge of 1.2 MB", true, func(x *forgedBlock) bool { return x.challenged(double(1_200_000)) }},
	{"challenge of a chunk's proofs", true, func(x *forgedBlock) bool { return x.challenged(x.doctored(false)) }},
	{"challenge of a chunk's state", true, func(x *forgedBlock) bool { return x.challenged(x.doctored(true), double(3)) }},
	{"V5 with challenges", true, func(x *forgedBlock) bool {
		x.Header.Version = primitives.HeaderV5
		return x.challenged(double(40))
	}},
	{"V7 with challenges", true, func(x *forgedBlock) bool {
		x.Header.Version = primitives.HeaderV7
		return x.challenged(double(40))
	}},
	header("vote for version 4294967295", true, func(h *primitives.BlockHeader) { h.LatestProtocolVersion = 1<<32 - 1 }),
	{"one vote less", true, func(x *forgedBlock) bool {
		if a := x.Header.Approvals; given(a) < len(a) && !x.allVotes() {
			return false
		}
		x.Header.Approvals[1] = ""
		return true
	}},
	{"votes without the last place", true, func(x *forgedBlock) bool {
		a := x.Header.Approvals
		x.Header.Approvals = a[:len(a)-1]
		return given(x.Header.Approvals) >= 3
	}},
	{"votes of all", true, func(x *forgedBlock) bool { return x.allVotes() }},
	{"one endorsement less", true, func(x *forgedBlock) bool {
		i := x.fresh()
		if i < 0 || given(x.Body.ChunkEndorsements[i]) < 4 {
			return false
		}
		x.Body.ChunkEndorsements[i][1] = ""
		x.roots()
		return true
	}},
	header("100 s ahead", true, func(h *primitives.BlockHeader) { h.Timestamp = uint64(time.Now().Add(100 * time.Second).UnixNano()) }),
}

// edgeForms apply to the first block of an epoch. Whether the byzantine validator produces such a
// block is up to chance.
var edgeForms = []blockForm{
	{"first of an epoch without data", false, func(x *forgedBlock) bool { h := x.Header; h.EpochSyncDataHash = nil; return x.first() }},
	{"first of an epoch, other data", false, func(x *forgedBlock) bool { h := x.Header; h.EpochSyncDataHash = &primitives.Hash{1}; return x.first() }},
	{"first of an epoch, other producers", false, func(x *forgedBlock) bool {
		x.Header.NextBPHash[3] ^= 1
		return x.first()
	}},
	{"first of an epoch, epochs as before", false, func(x *forgedBlock) bool {
		is := x.first()
		x.Header.EpochID, x.Header.NextEpochID = x.parent.Header.EpochID, x.parent.Header.NextEpochID
		return is
	}},
	{"first of an epoch, V7", true, func(x *forgedBlock) bool {
		x.Header.Version = primitives.HeaderV7
		return x.first() && x.challenged(double(9))
	}},
}

// first returns whether the block is the first of its epoch.
func (x *forgedBlock) first() bool {
	return x.parent.Header.EpochID != x.Header.EpochID && x.parent.Header.Height > 0
}

// allVotes adds the missing approvals. It returns false if their signers cannot be determined.
func (x *forgedBlock) allVotes() bool {
	message, a := x.vote(), x.Header.Approvals
	missing := slices.Index(a, "")
	if given(a) != len(a)-1 || missing < 0 {
		return false
	}
	for _, key := range x.keys {
		if sig := key.Sign(message); !slices.Contains(a, sig) {
			a[missing] = sig
		}
	}
	return given(a) == len(a)
}
