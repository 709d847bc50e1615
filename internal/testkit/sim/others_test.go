package sim

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// moving is a world whose shards are dealt anew for each epoch, and a node that holds all.
func moving(t *testing.T, h primitives.Height) *World {
	return newFaultlessWorld(t, h, func(s *Scenario) {
		s.Shards, s.Own, s.Shuffle, s.Each, s.Followers, s.Epoch, s.Fold = 4, true, true, 2, 1, 20, 4
	})
}

// TestRemoteStatusEqualsOwnStatus: other nodes compute from their chain the same transaction
// statuses that a node with the shard's state reports. A changed report is detected.
func TestRemoteStatusEqualsOwnStatus(t *testing.T) {
	w := moving(t, 36)
	all := w.nodes[len(w.nodes)-1]
	final, judged, contradicted := primitives.Height(0), 0, 0
	for _, n := range w.nodes {
		if h := n.engine.Final().Height; final == 0 || h < final {
			final = h
		}
	}
	for hash, signer := range w.load.signers {
		want, err := all.engine.Transactions().FullStatus(hash)
		if err != nil || want.Level != view.LevelFinal {
			continue
		}
		last := primitives.Height(0)
		for i := range want.Outcomes {
			ref, err := all.engine.Ref(want.Outcomes[i].BlockHash)
			if err != nil {
				t.Fatal(err)
			}
			last = max(last, ref.Height)
		}
		if last+3 > final {
			continue
		}
		raw, err := all.engine.AnswerTxStatus(hash, signer)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range w.nodes[:len(w.nodes)-1] {
			if n.engine.Holds(n.engine.Head().Layout.ShardOf(signer)) {
				continue
			}
			if _, err := n.engine.AnswerTxStatus(hash, signer); !errors.Is(err, engine.ErrUntracked) {
				t.Errorf("%s answered about a shard that it does not track: %v", n.name, err)
			}
			judge := func(change func(*view.FinalOutcome)) (*view.FinalOutcome, error) {
				o, err := view.ReadFinalOutcome(raw)
				if err != nil {
					t.Fatal(err)
				}
				change(o)
				return o, n.engine.RemoteStatus(o, hash)
			}
			o, err := judge(func(*view.FinalOutcome) {})
			if err != nil {
				t.Fatalf("%s: error %v", n.name, err)
			}
			if got, want := view.AppendFinalOutcome(nil, o, false), view.AppendFinalOutcome(nil, &want, false); string(got) != string(want) {
				t.Errorf("%s replied\n%s\nthe node with the shard replied\n%s", n.name, got, want)
			}
			judged++
			for what, change := range map[string]func(*view.FinalOutcome){
				"gas": func(o *view.FinalOutcome) { o.Outcome.GasBurnt++ },
				"a receipt's status": func(o *view.FinalOutcome) {
					o.Outcomes[0].Status = primitives.ExecutionStatus{Kind: primitives.StatusFailure}
				},
				"a proof": func(o *view.FinalOutcome) {
					o.Outcomes[0].Proof = append(o.Outcomes[0].Proof, primitives.MerklePathItem{})
				},
				"a block":             func(o *view.FinalOutcome) { o.Outcome.BlockHash = primitives.Hash{1} },
				"another transaction": func(o *view.FinalOutcome) { o.Remote.Hash[0]++ },
				"another signer":      func(o *view.FinalOutcome) { o.Remote.Signer = "z" },
				"another receiver":    func(o *view.FinalOutcome) { o.Remote.Receiver = "z" },
				"of the newest block alone": func(o *view.FinalOutcome) { // which nothing bears out yet
					o.Outcome.BlockHash, o.Outcomes = n.engine.Head().Hash, nil
					o.Outcome.Status, o.Outcome.ReceiptIDs = primitives.ExecutionStatus{Kind: primitives.StatusSuccessValue, Value: []byte("paid")}, nil
				},
				"twice":       func(o *view.FinalOutcome) { o.Outcomes = append(o.Outcomes, o.Outcomes[0]) },
				"in a circle": func(o *view.FinalOutcome) { o.Outcomes[0].ReceiptIDs = []primitives.Hash{o.Outcome.ID} },
				"of nobody": func(o *view.FinalOutcome) {
					x := o.Outcomes[0]
					x.ID[0]++
					o.Outcomes = append(o.Outcomes, x)
				},
			} {
				if _, err := judge(change); !errors.Is(err, engine.ErrAnswer) {
					t.Errorf("%s: error %v", what, err)
				}
				contradicted++
			}
			if o, err := judge(func(o *view.FinalOutcome) {
				o.Outcomes[0].BlockHash, o.Outcomes[0].Status = n.engine.Head().Hash, primitives.ExecutionStatus{Kind: primitives.StatusSuccessValue, Value: []byte("paid")}
			}); err != nil || o.Level >= view.LevelExecuted || len(o.Outcomes) > 0 || o.Status.Kind != view.FinalStarted {
				t.Errorf("a receipt that is reported in the newest block: %v, %v, %d outcomes, %+v", err, o.Level, len(o.Outcomes), o.Status)
			}
			if o, err := judge(func(o *view.FinalOutcome) { o.Outcomes = nil }); err != nil || o.Level >= view.LevelExecuted {
				t.Errorf("an omitted outcome: %v, %v", o.Level, err)
			}
		}
	}
	t.Logf("%d transactions, %d answers judged, %d changed ones", len(w.load.signers), judged, contradicted)
	if judged < 50 {
		t.Errorf("%d answers were judged", judged)
	}
}

// TestLightClientFollowsMovedShards: a light client that asks any node follows the chain over
// epochs in which shards are assigned anew.
func TestLightClientFollowsMovedShards(t *testing.T) {
	w := moving(t, 110)
	w.measure()
	if w.result.Moves == 0 {
		t.Error("no shard has moved")
	}
	for _, n := range w.nodes {
		ref, err := n.store.NextBlock(5)
		if err != nil {
			t.Fatal(err)
		}
		h, err := n.engine.Header(ref.Hash)
		if err != nil {
			t.Fatal(err)
		}
		head := &chain.LightClientHead{Lite: h.BlockHeaderInnerLite}
		err = n.engine.Epochs(func(m *epoch.Manager) (err error) {
			if head.BPs, err = m.BlockProducersOrdered(h.EpochID); err == nil {
				head.NextBPs, err = m.BlockProducersOrdered(h.NextEpochID)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		last, epochs := ref.Hash, map[primitives.EpochID]bool{}
		for {
			b, err := n.engine.NextLightClientBlock(last)
			if err != nil {
				t.Fatalf("%s, after height %d: %v", n.name, head.Lite.Height, err)
			}
			if b == nil {
				break
			}
			if head, err = head.Advance(b, verify); err != nil {
				t.Fatalf("%s: error %v", n.name, err)
			}
			last = b.Hash()
			epochs[head.Lite.EpochID] = true
		}
		if final := n.engine.Final().Height; len(epochs) < 3 || head.Lite.Height+3 < final {
			t.Errorf("%s: %d epochs, to height %d of %d", n.name, len(epochs), head.Lite.Height, final)
		}
	}
}
