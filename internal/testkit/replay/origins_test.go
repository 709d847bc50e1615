package replay

import (
	"errors"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/backend"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// origins records the origin of each receipt while a chain is executed: receipts named by outcomes,
// and data receipts by the receipt that sends them.
type origins struct {
	tx       map[primitives.Hash]primitives.Hash // transactions, and receipts with the transaction that they originate from
	senders  map[primitives.Hash]primitives.Hash // data ids, with the receipt that sends them
	yields   map[primitives.Hash]primitives.Hash // data ids, with the receipt that waits for them
	receipts map[primitives.Hash]*primitives.Receipt
	order    []primitives.Hash
	signers  map[primitives.Hash]primitives.AccountID
}

func (o *origins) note(r *runner) {
	head := r.e.Head()
	for i := range head.Shards {
		res := head.Shards[i].Result
		if res == nil || head.Shards[i].Chunk == nil {
			continue
		}
		for _, tx := range head.Shards[i].Chunk.Transactions {
			o.tx[tx.Hash()], o.signers[tx.Hash()] = tx.Hash(), tx.SignerID
		}
		for k := range res.Outcomes {
			for _, id := range res.Outcomes[k].ReceiptIDs {
				o.tx[id] = o.tx[res.Outcomes[k].ID]
			}
		}
		list := append([]*primitives.Receipt{}, res.Outgoing...)
		for k := range res.Processed {
			list = append(list, res.Processed[k].Receipt)
		}
		for _, x := range list {
			if o.receipts[x.ID] == nil {
				o.receipts[x.ID], o.order = x, append(o.order, x.ID)
			}
			a, ok := x.Body.(*primitives.ActionReceipt)
			if !ok {
				continue
			}
			for _, d := range a.OutputDataReceivers {
				o.senders[d.DataID] = x.ID
			}
			if a.Yield {
				o.yields[a.InputDataIDs[0]] = x.ID
			}
		}
	}
}

// TestEachReceiptHasItsOrigin: for every receipt of the recorded chains the engine finds the
// transaction that it originates from: receipts of other shards, refunds, data, late resumes of
// yields, global code distributions, delayed receipts, also across splits.
func TestEachReceiptHasItsOrigin(t *testing.T) {
	kinds := map[string]int{}
	for name := range cuts {
		t.Run(name, func(t *testing.T) {
			rec := openCut(t, name)
			if name == "probe" && all() { // the cut has no yields
				rec = openShared(t, name+".jsonl.gz")
			}
			o := &origins{tx: map[primitives.Hash]primitives.Hash{}, senders: map[primitives.Hash]primitives.Hash{}, yields: map[primitives.Hash]primitives.Hash{},
				receipts: map[primitives.Hash]*primitives.Receipt{}, signers: map[primitives.Hash]primitives.AccountID{}}
			left := len(rec.Blocks)
			_, err := Run(rec, Options{Par: par, EpochConfig: epochConfigs(t, name), behind: func(r *runner, _ *primitives.Block, _ []*primitives.Chunk) error {
				o.note(r)
				if left--; left == 1 { // the genesis block is not executed
					o.check(t, r, kinds)
				}
				return nil
			}})
			if err != nil || left > 1 {
				t.Fatalf("%d blocks are left, %v", left, err)
			}
		})
	}
	t.Logf("%v", kinds)
	want := []string{"action", "refund", "data", "global"}
	if all() {
		want = append(want, "resume", "timeout")
	}
	for _, kind := range want {
		if kinds[kind] == 0 {
			t.Errorf("no receipt of kind %s", kind)
		}
	}
}

func (o *origins) check(t *testing.T, r *runner, kinds map[string]int) {
	b := backend.New(backend.Options{Engine: r.e, Genesis: &genesis.Config{}, Now: time.Now})
	for _, id := range o.order {
		x := o.receipts[id]
		want, kind := o.tx[id], "action"
		switch body := x.Body.(type) {
		case *primitives.ActionReceipt:
			if x.PredecessorID == primitives.SystemAccount {
				kind = "refund"
			}
		case *primitives.DataReceipt:
			kind, want = "data", o.tx[o.senders[body.DataID]]
			if body.Resume {
				if kind, want = "resume", (primitives.Hash{}); body.Data == nil {
					kind, want = "timeout", o.tx[o.yields[body.DataID]]
				}
			}
		case *primitives.GlobalContractDistribution:
			if kind = "global"; want.IsZero() { // a hop: the one that another hop or a deployment sent
				for _, other := range o.order {
					for i := range uint64(8) {
						if primitives.ReceiptIDFromReceipt(other, o.heightOf(t, r, id), i) == id {
							want = o.tx[other]
							o.tx[id] = want
						}
					}
				}
			}
		}
		kinds[kind]++
		got, err := b.ReceiptToTx(t.Context(), &view.OriginQuery{Receipt: id})
		if err != nil {
			t.Errorf("%s receipt %v: %v", kind, id, err)
			continue
		}
		if !want.IsZero() && got.Transaction != want || got.Sender != o.signers[got.Transaction] {
			t.Errorf("%s receipt %v: %+v, want %v of %s", kind, id, got, want, o.signers[want])
		}
		if want.IsZero() && kind != "resume" { // the resumer may be of any transaction
			t.Errorf("%s receipt %v: unknown origin", kind, id)
		}
	}
	if _, err := b.ReceiptToTx(t.Context(), &view.OriginQuery{Receipt: primitives.HashBytes([]byte("none"))}); !errors.Is(err, view.OriginUnknown) {
		t.Errorf("an unknown receipt: %v", err)
	}
}

// heightOf is the height of the block that sent a receipt.
func (o *origins) heightOf(t *testing.T, r *runner, id primitives.Hash) primitives.Height {
	t.Helper()
	places, err := r.store.Find().Sent(id)
	if err != nil || len(places) == 0 {
		t.Fatalf("receipt %v: %d places, %v", id, len(places), err)
	}
	return places[0].Block.Ref().Height
}
