package engine

import (
	"errors"
	"strconv"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage"
)

// TestOtherHeaderFormsAreAccepted: a producer may write a header version that nearcore itself does
// not write, and challenges, which nodes ignore. neard accepts any version
// (chain/chain/src/chain.rs validate_header), so this node accepts such a block and its
// descendants, also after a restart.
func TestOtherHeaderFormsAreAccepted(t *testing.T) {
	challenge := []byte{1, 0, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 2, 0, 0, 0, 'a', 'a'}
	challenge = primitives.ZeroED25519Signature.AppendBorsh(challenge)
	for name, change := range map[string]func(*primitives.Block){
		"V5": func(b *primitives.Block) { b.Header.Version = primitives.HeaderV5 },
		"V7": func(b *primitives.Block) {
			b.Header.Version, b.Header.CertifiedEpochID = primitives.HeaderV7, primitives.Hash{3}
			b.Header.EndorsementStats = []primitives.EndorsementStats{{Produced: 1, Expected: 2}}
		},
		"challenges": func(b *primitives.Block) {
			b.Body.Challenges = challenge
			b.Header.BlockBodyHash = b.Body.Hash()
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, disk := testGenesis(t, "aa", "bb", "cc"), storage.NewMemDisk()
			if name == "V7" { // refused from 87 on
				g.Config.ProtocolVersion = 86
			}
			maker := openOn(t, g, disk, storage.Options{FlatHeadBlocks: 2})
			b, chunks := maker.make(maker.Head().Hash, 1, false)
			h := *b.Header
			made := &primitives.Block{Header: &h, Body: b.Body}
			change(made)
			made.Header.Init()
			chain.SignBlock(made, maker.producer(h.PrevHash, 1))
			var came primitives.Block
			if err := borsh.Unmarshal(made.AppendBorsh(nil), &came); err != nil || came.Hash() != made.Hash() || came.Hash() == b.Hash() {
				t.Fatalf("comes as %v: %v", &came, err)
			}
			if _, err := maker.Precheck(&came); err != nil {
				t.Fatal(err)
			}
			maker.accept(&came, chunks)
			for height := primitives.Height(2); height < 6; height++ {
				maker.accept(maker.make(maker.Head().Hash, height, false))
			}
			if err := maker.Close(); err != nil {
				t.Fatal(err)
			}
			_ = maker.store.Close()
			maker = openOn(t, g, disk, storage.Options{})
			if at, err := maker.Header(made.Hash()); err != nil || at.Hash() != made.Hash() || at.Version != made.Header.Version {
				t.Errorf("behind a restart: %v, %v", at, err)
			}
		})
	}
}

// TestHeaderV7IsRefusedFromProtocol87 tests the feature RejectBlockHeaderV7BeforeSpice.
func TestHeaderV7IsRefusedFromProtocol87(t *testing.T) {
	for version, want := range map[primitives.ProtocolVersion]error{86: nil, 87: chain.InvalidProtocolVersion} {
		t.Run(strconv.Itoa(int(version)), func(t *testing.T) {
			g := testGenesis(t, "aa", "bb", "cc")
			g.Config.ProtocolVersion = version
			maker := openOn(t, g, storage.NewMemDisk(), storage.Options{})
			b, chunks := maker.make(maker.Head().Hash, 1, false)
			h := *b.Header
			made := &primitives.Block{Header: &h, Body: b.Body}
			h.Version = primitives.HeaderV7
			h.Init()
			chain.SignBlock(made, maker.producer(h.PrevHash, 1))
			if want == nil {
				maker.accept(made, chunks)
				return
			}
			if err := maker.ValidateForGossip(made); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			maker.accept(b, chunks)
		})
	}
}
