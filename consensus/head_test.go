package consensus

import (
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// TestBlockWaitsForMissingEndorsements: a block that is ready waits for missing endorsements, for a
// time after the last one, but not long in total. It does not wait if the last endorsement is old.
func TestBlockWaitsForMissingEndorsements(t *testing.T) {
	for name, c := range map[string]struct {
		endorsed, enough, now, want int64
	}{
		"just arrived":           {100 * ms, 0, 100 * ms, 110 * ms},
		"one came since":         {106 * ms, 100 * ms, 106 * ms, 116 * ms},
		"one comes every few ms": {119 * ms, 100 * ms, 119 * ms, 120 * ms},
		"long ago":               {100 * ms, 0, 600 * ms, 110 * ms},
		"one for another block":  {900 * ms, 100 * ms, 900 * ms, 120 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			n := &Node{o: Options{Delays: doomslug.Delays{Endorsement: 600 * ms}}, head: &head{endorsedAt: c.enough},
				endorsed: c.endorsed, now: c.now}
			if got := n.endorsementDeadline(); got != c.want || n.head.endorsedAt == 0 {
				t.Errorf("deadline at %d ms, want %d", got/ms, c.want/ms)
			}
		})
	}
}

// TestEndorsementWaitIsBounded: endorsements that keep arriving delay a block by at most a quarter
// of the block interval and at most 20 ms.
func TestEndorsementWaitIsBounded(t *testing.T) {
	for pace, most := range map[int64]int64{1 * ms: ms / 4, 20 * ms: 5 * ms, 120 * ms: 20 * ms, 600 * ms: 20 * ms} {
		n := &Node{o: Options{Delays: doomslug.Delays{Endorsement: pace}}, head: &head{}, now: 100 * ms}
		for n.endorsed = n.now; n.now < n.endorsementDeadline(); n.now += ms / 8 {
			n.endorsed = n.now
		}
		if held := n.now - 100*ms; held > most {
			t.Errorf("with an interval of %d us a block waits %d us, want at most %d", pace/1000, held/1000, most/1000)
		}
	}
}

// TestEagerNodeDoesNotWaitWhileActive: a node in eager mode does not wait while there is something
// to process.
func TestEagerNodeDoesNotWaitWhileActive(t *testing.T) {
	for _, c := range []struct {
		eager        bool
		height, upTo primitives.Height
		want         bool
	}{{true, 5, 8, true}, {true, 8, 8, false}, {false, 5, 8, false}} {
		n := &Node{o: Options{Eager: c.eager}, head: &head{height: c.height}, activeUntil: c.upTo}
		if n.isEager() != c.want {
			t.Errorf("%+v: %v", c, !c.want)
		}
	}
}

// TestNoWitnessIfAllValidatorsHoldShard: a chunk needs no witness in eager mode if this node is one
// of its validators, all other validators hold the shard, and the last block lacks no chunk.
func TestNoWitnessIfAllValidatorsHoldShard(t *testing.T) {
	list := []chain.Assigned{{AccountID: "a"}, {AccountID: "b"}, {AccountID: "c"}}
	for _, c := range []struct {
		what   string
		change func(n *Node)
		want   bool
	}{
		{"all hold it", func(*Node) {}, true},
		{"shards of validators unknown", func(n *Node) { n.o.Holds = nil }, false},
		{"nothing to process", func(n *Node) { n.activeUntil = 5 }, false},
		{"one validator lacks the shard", func(n *Node) {
			n.o.Holds = func(a primitives.AccountID, s primitives.ShardID) bool { return a == "b" && s == 7 }
		}, false},
		{"the last block lacks a chunk", func(n *Node) { n.head.block.Header.ChunkMask[1] = false }, false},
		{"this node is not a validator", func(n *Node) { n.me = "b" }, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			header := &primitives.BlockHeader{}
			header.ChunkMask = []bool{true, true}
			n := &Node{me: "a", o: Options{Eager: true,
				Holds: func(a primitives.AccountID, s primitives.ShardID) bool { return a != "a" && s == 7 }},
				head: &head{height: 5, block: &primitives.Block{Header: header}}, activeUntil: 8}
			if c.change(n); n.needsNoWitness(list, 7) != c.want || n.needsNoWitness(list, 6) {
				t.Errorf("got %v", !c.want)
			}
		})
	}
}

// newHead is a Chain with a new head and no other data.
type newHead struct{ engineOf }

func (newHead) Final() storage.BlockRef                             { return storage.BlockRef{} }
func (newHead) Epochs(func(*epoch.Manager) error) error             { return nil }
func (newHead) Approvers(primitives.Hash) ([]chain.Approver, error) { return nil, nil }
func (newHead) BlockNode(primitives.Hash) *engine.BlockNode         { return nil }

// noHeaders is a HeaderChain without a header.
type noHeaders struct{ HeaderChain }

func (noHeaders) Highest() *primitives.BlockHeader { return nil }

// TestSkippedHeightResendsEndorsements: when a height is skipped, endorsements of chunks on the
// head are also sent to the producers of later heights, even if they were made before that head.
// Those of older chunks are not.
func TestSkippedHeightResendsEndorsements(t *testing.T) {
	n := &Node{e: newHead{}, o: Options{HeaderChain: noHeaders{}}, out: new(Out), tracker: doomslug.New(doomslug.Delays{}, 0, 0)}
	for h := range primitives.Height(3) {
		e := &primitives.ChunkEndorsement{Metadata: primitives.ChunkEndorsementMetadata{HeightCreated: 7 + h}}
		n.deferred = append(n.deferred, partialwitness.Send{To: []primitives.AccountID{"bb"}, Body: e})
	}
	at := new(primitives.BlockHeader)
	at.Height = 8
	n.setHead(&engine.BlockNode{Block: &primitives.Block{Header: at}})
	n.sendDeferred()
	if len(n.out.Send) != 1 || n.out.Send[0].Message.(*primitives.ChunkEndorsement).Metadata.HeightCreated != 9 || len(n.deferred) != 0 {
		t.Errorf("endorsements sent after the skip: %v", n.out.Send)
	}
}

// TestNoEndorsementWhileCatchingUp: a node that is catching up does not endorse the chunks of the
// blocks that it fetches, because each endorsement would cost a disk write.
func TestNoEndorsementWhileCatchingUp(t *testing.T) {
	c := new(primitives.Chunk)
	c.Header.HeightCreated = 9
	for seen, want := range map[primitives.Height]int{8 + maxBehind: 1, 9 + maxBehind: 0} {
		at := new(primitives.BlockHeader)
		at.Height = seen
		assigned := &assignments{}
		n := &Node{e: newHead{}, out: new(Out), highestVoted: at, head: &head{height: 8}, assigned: assigned,
			witnesses:     partialwitness.NewTracker(partialwitness.Validator{}, assigned, nil),
			o:             Options{Verifier: PlainVerifier{}, HeaderChain: noHeaders{}, Key: primitives.SecretKeyFromSeed(primitives.ED25519, "aa")},
			waitingChunks: map[primitives.Hash][]*primitives.Chunk{}}
		if n.endorseHeld(c); len(n.waitingChunks) != want {
			t.Errorf("%d chunks wait at height 8 of %d, want %d", len(n.waitingChunks), seen, want)
		}
	}
}
