package network

import (
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/net/near"
	"github.com/troupe-chain/troupe/net/wire"
	"github.com/troupe-chain/troupe/primitives"
)

// TestOnlyRepeatedInvalidBlocksBanPeer: an honest peer relays one invalid block of each height that
// it may relay unchecked, and one more after a restart, whether the chain grows or not. It is not
// banned. A peer that sends three of one height is banned, as is one that sends many of heights
// above the chain.
func TestOnlyRepeatedInvalidBlocksBanPeer(t *testing.T) {
	w, salt := newBadBlocks(), uint64(0)
	id := func(name string) wire.PeerID {
		return primitives.SecretKeyFromSeed(primitives.ED25519, name).PublicKey()
	}
	bring := func(name string, height, tip primitives.Height) bool {
		salt++
		return w.tooMany(id(name), height, primitives.HashBytes([]byte(fmt.Sprint(salt))), tip)
	}
	for h := primitives.Height(1); h <= relayWindow; h++ {
		if bring("honest", 100+h, 100) {
			t.Fatalf("banned for its %d. wrong block while the chain stands still", h)
		}
	}
	for tip := primitives.Height(101); tip < 1000; tip++ {
		if bring("honest", tip+relayWindow, tip) || tip%100 == 0 && bring("honest", tip+relayWindow, tip) {
			t.Fatalf("banned at %d", tip)
		}
	}
	same := primitives.Hash{7}
	for range 100 { // also over a connection, and as an answer
		if w.tooMany(id("again"), 7, same, 6) {
			t.Fatal("the same block counts more than once")
		}
	}
	for n := 1; !bring("hostile", 1001, 1000); n++ {
		if n == maxBadOfHeight+1 {
			t.Fatal("three of a height")
		}
	}
	for n := 1; !bring("far", primitives.Height(5000+n), 1000); n++ {
		if n == maxBadBlocks+1 {
			t.Fatal("of heights far above")
		}
	}
	for i := range 3 * maxBadPeers {
		bring(fmt.Sprint(i), 1001, 1000)
	}
	if len(w.of) != maxBadPeers || len(w.order) != maxBadPeers {
		t.Errorf("%d peers are remembered", len(w.of))
	}
}

// TestPeersMayRelayWhatNeardChecksLate: neard relays each block whose fault it finds only later. The
// producer of a height can sign any number of such blocks, and no relay is banned for them.
func TestPeersMayRelayWhatNeardChecksLate(t *testing.T) {
	late := func(err error) bool {
		return isCheckedAfterRelay(fmt.Errorf("%w: %w", engine.ErrGossipCheck, err))
	}
	for _, err := range []error{chain.InvalidShardSplit, fmt.Errorf("%w: shard index 0", chain.InvalidEndorsementBitmap),
		chain.InvalidGasPrice, fmt.Errorf("%w: at shard index 1: %w", chain.InvalidChunk, chain.ErrRepeatedChunk)} {
		if !late(err) {
			t.Errorf("a relay is banned for %v", err)
		}
	}
	for _, err := range []error{chain.InvalidChunk, chain.InvalidApprovals, chain.InvalidProtocolVersion, chain.InvalidBlockOrdinal} {
		if late(err) {
			t.Errorf("a peer may relay any number of blocks with %v", err)
		}
	}
}

// TestLongBlocksAreRateLimited: a peer's first unrequested long block is accepted whatever its
// size, later ones up to a byte rate. Short blocks are accepted meanwhile. The bytes of one peer's
// blocks in the mailbox are bounded, over connections and by gossip.
func TestLongBlocksAreRateLimited(t *testing.T) {
	const long = 8 << 20
	from, now := primitives.SecretKeyFromSeed(primitives.ED25519, "x").PublicKey(), int64(0)
	r := newBlockLimits()
	taken := 0
	for ; now < 10_000; now += 10 {
		if r.admitLong(now, long) {
			taken++
		}
		if !r.allow(now, primitives.Height(now), primitives.Hash{}, 1000) {
			t.Fatal("a short one is dropped")
		}
	}
	if most := 10*longRate/long + 4; taken < 10*longRate/long || taken > most {
		t.Errorf("%d of 8 MiB are taken in ten seconds", taken)
	}
	if r = newBlockLimits(); !r.admitLong(0, 128<<20) || r.admitLong(6000, 1) || !r.admitLong(8000, 1) {
		t.Error("a block of 128 MiB is refused, or the next one is not delayed by its size")
	}
	r, taken = newBlockLimits(), 0
	for i := range 100 {
		for h := range primitives.Height(len(r.heights)) {
			if r.admitHeight(7+h, primitives.Hash{byte(i)}) {
				taken++
			}
			if !r.admitHeight(7+h, primitives.Hash{0}) {
				t.Fatal("the first block, repeated, is dropped")
			}
		}
	}
	if taken != maxOfHeight*len(r.heights) {
		t.Errorf("%d of sixteen heights are taken", taken)
	}
	in := newInbox(new(Status))
	for _, gossiped := range []bool{false, true} {
		b := blank()
		b.Body.Challenges = make([]byte, long)
		d := near.Deliver{From: from, Msg: &wire.Block{Block: b}, Gossiped: gossiped}
		var places []*slot
		for p := in.admit(&d); p != nil; p = in.admit(&d) {
			if places = append(places, p); len(places) > 100 {
				break
			}
		}
		if n := len(places); n < 2 || n > maxInboxBytes/long+1 {
			t.Errorf("%d of 8 MiB wait, by gossip: %v", n, gossiped)
		}
		for _, p := range places {
			p.done()
		}
	}
	if len(in.each) != 0 || in.all != 0 || in.gossip != 0 {
		t.Errorf("%d slots are still taken, want none", len(in.each))
	}
}
