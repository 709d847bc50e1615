package capture

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// TestNeardsRecordingsHaveNoConflicts: neards sign nothing twice, and the search finds the items
// that they signed.
func TestNeardsRecordingsHaveNoConflicts(t *testing.T) {
	for _, path := range recordings(t) {
		s := NewSearch(nil)
		if err := s.Read(open(t, path)); err != nil {
			t.Fatal(err)
		}
		if len(s.Conflicts) > 0 {
			t.Errorf("%s: conflicts %v", path, &s.Conflicts[0])
		}
		if s.Blocks == 0 || s.Chunks == 0 || s.Votes == 0 {
			t.Errorf("%s: %d blocks, %d chunks, %d votes", path, s.Blocks, s.Chunks, s.Votes)
		}
		t.Logf("%s: %d blocks, %d chunks, %d votes; %d not signed with a key that is known", path, s.Blocks, s.Chunks, s.Votes, s.Unsigned)
	}
}

// TestConflictsAreFoundOnceEach: a second block, chunk or vote for the same height is found, once
// for each, in any recording. Items signed with unknown keys are not reported, nor are copies.
func TestConflictsAreFoundOnceEach(t *testing.T) {
	secret := primitives.SecretKeyFromSeed(primitives.ED25519, "node0")
	var out bytes.Buffer
	tell := func(m wire.Message) {
		text, err := json.Marshal(&Line{Kind: m.Kind().String(), Frame: wire.Append(nil, m)})
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(text, '\n'))
	}
	vote := func(key primitives.SecretKey, inner primitives.ApprovalInner, target primitives.Height) {
		a := primitives.Approval{Inner: inner, Target: target, AccountID: "node0", Signature: key.Sign(inner.SignedBytes(target))}
		tell(wire.NewRouted(secret, wire.ToPeer(secret.PublicKey()), &wire.BlockApproval{Approval: a}, 1))
	}
	stranger := primitives.SecretKeyFromSeed(primitives.ED25519, "nobody")
	vote(secret, primitives.ApprovalInner{Endorsement: primitives.Hash{1}}, 10)
	vote(secret, primitives.ApprovalInner{Endorsement: primitives.Hash{1}}, 10)
	vote(secret, primitives.ApprovalInner{Endorsement: primitives.Hash{2}}, 11)
	vote(stranger, primitives.ApprovalInner{Endorsement: primitives.Hash{3}}, 11)
	keys := map[primitives.AccountID]primitives.PublicKey{"node0": secret.PublicKey()}
	s := NewSearch(keys)
	if err := s.Read(bytes.NewReader(out.Bytes())); err != nil || len(s.Conflicts) > 0 || s.Votes != 2 || s.Unsigned != 1 {
		t.Fatalf("got %+v, error %v", s, err)
	}
	out.Reset()
	vote(secret, primitives.ApprovalInner{Endorsement: primitives.Hash{4}}, 11)
	vote(secret, primitives.ApprovalInner{Endorsement: primitives.Hash{4}}, 11)

	var header *primitives.BlockHeader
	var chunk *primitives.ChunkHeader
	for l, err := range Lines(open(t, "../../net/wire/testdata/frames.jsonl.gz")) {
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Frame) == 0 {
			continue
		}
		if m, err := wire.Decode(l.Frame); err == nil {
			if b, ok := m.(*wire.Block); ok && b.Block.Header.Height > 0 && len(b.Block.Body.Chunks) > 0 && b.Block.Body.Chunks[0].HeightCreated > 0 {
				header, chunk = b.Block.Header, b.Block.Body.Chunks[0]
				break
			}
		}
	}
	for i := range 2 {
		h, c := *header, *chunk
		h.Timestamp += uint64(i)
		h.Init()
		h.Signature = secret.Sign(raw(h.Hash()))
		c.PrevStateRoot[0] += byte(i)
		c.Signature = secret.Sign(raw(c.ChunkHash()))
		tell(&wire.Headers{Headers: []*primitives.BlockHeader{&h}})
		tell(wire.NewRouted(secret, wire.ToPeer(secret.PublicKey()), &wire.PartialChunk{PartialChunk: primitives.PartialChunk{Header: c}}, 1))
	}
	if err := s.Read(&out); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, c := range s.Conflicts {
		kinds = append(kinds, c.Kind)
		if c.Account != "node0" || c.A == c.B {
			t.Errorf("got %v", &c)
		}
	}
	if got := strings.Join(kinds, " "); len(kinds) != 3 || !strings.Contains(got, "vote") || !strings.Contains(got, "block") || !strings.Contains(got, "chunk") {
		t.Errorf("found %s: %v", got, s.Conflicts)
	}
}

func raw(h primitives.Hash) []byte { return h[:] }

// TestSkipOverEndorsedHeightIsAConflict: a vote for a block and a skip approval that skips its
// height are a conflict, whichever came first. Skips from higher blocks to heights that were
// already skipped to, and votes for the blocks at either end of a skip, are no conflict: neards
// send them.
func TestSkipOverEndorsedHeightIsAConflict(t *testing.T) {
	secret := primitives.SecretKeyFromSeed(primitives.ED25519, "node0")
	type vote struct{ from, to primitives.Height }
	for name, tt := range map[string]struct {
		votes []vote
		want  string
	}{
		"as neards skip":        {[]vote{{4, 5}, {5, 6}, {5, 7}, {5, 8}, {5, 9}, {7, 9}, {9, 10}, {9, 11}, {9, 12}}, ""},
		"voted, then skipped":   {[]vote{{4, 5}, {5, 6}, {4, 7}}, "node0 signed two votes at height 5: for X and to skip from 4 to 7"},
		"skipped, then voted":   {[]vote{{4, 8}, {7, 8}}, "node0 signed two votes at height 7: for X and to skip from 4 to 8"},
		"of the same height":    {[]vote{{4, 6}, {5, 6}}, "node0 signed two votes at height 5: for X and to skip from 4 to 6"},
		"two of many are found": {[]vote{{1, 2}, {2, 3}, {3, 4}, {1, 4}, {8, 9}, {1, 7}}, "node0 signed two votes at height 2: for X and to skip from 1 to 4\nnode0 signed two votes at height 2: for X and to skip from 1 to 7\nnode0 signed two votes at height 3: for X and to skip from 1 to 4\nnode0 signed two votes at height 3: for X and to skip from 1 to 7"},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewSearch(map[primitives.AccountID]primitives.PublicKey{"node0": secret.PublicKey()})
			for _, v := range tt.votes { // a recording each
				block := primitives.HashBytes([]byte{byte(v.from)})
				inner := primitives.NewApprovalInner(block, v.from, v.to)
				a := primitives.Approval{Inner: inner, Target: v.to, AccountID: "node0", Signature: secret.Sign(inner.SignedBytes(v.to))}
				m := wire.NewRouted(secret, wire.ToPeer(secret.PublicKey()), &wire.BlockApproval{Approval: a}, 1)
				text, err := json.Marshal(&Line{Kind: m.Kind().String(), Frame: wire.Append(nil, m)})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Read(bytes.NewReader(append(text, '\n'))); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for _, c := range s.Conflicts {
				got = append(got, strings.Replace(c.String(), c.A, "for X", 1))
			}
			if s.Votes != len(tt.votes) || strings.Join(got, "\n") != tt.want {
				t.Errorf("%d votes of %d; %s", s.Votes, len(tt.votes), strings.Join(got, "\n"))
			}
		})
	}
}
