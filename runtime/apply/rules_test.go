package apply

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/refmodel"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm"
)

// ruled are the trie columns that the model in internal/testkit/refmodel has.
var ruled = map[primitives.TrieColumn]bool{
	primitives.ColAccount: true, primitives.ColContractCode: true, primitives.ColAccessKey: true, primitives.ColContractData: true,
	primitives.ColGlobalContractCode: true, primitives.ColGlobalContractNonce: true,
}

// ruledNet returns a chain of one shard with the state of a refmodel world, with free gas and no chunk limits.
func ruledNet(t *testing.T, w *refmodel.World, v *vm.VM) *net {
	n := newNet(t, primitives.SingleShardLayout())
	cfg := *parameters.MustGet(parameters.June(86))
	if w.Rules > 86 {
		cfg = *parameters.MustGet(parameters.Release(primitives.ProtocolVersion(w.Rules)))
	}
	cfg.MinGasPurchasePrice, cfg.AccountCreationCharge = primitives.Balance{}, primitives.Balance{}
	cfg.BandwidthScheduler.MaxBaseBandwidth = 4_000_000
	n.cfg, n.price, n.limit, n.vm = &cfg, primitives.Balance{}, 1<<62, v
	n.shards[0].trie = buildTrie(t, w.Rows())
	return n
}

// rows returns the entries of a state in the ruled columns.
func (n *net) rows() map[string][]byte {
	rows := map[string][]byte{}
	err := n.shards[0].trie.Scan(nil, nil, nil, func(key, value []byte) bool {
		if ruled[primitives.TrieColumn(key[0])] {
			rows[string(key)] = bytes.Clone(value)
		}
		return true
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return rows
}

// TestGeneratedChunksMatchReferenceModel runs generated chunks with the model in internal/testkit/refmodel
// and with Apply, serially and in parallel. The outcomes of receipts, the outgoing receipts and the
// final states must be the same.
func TestGeneratedChunksMatchReferenceModel(t *testing.T) {
	t.Parallel()
	for _, rules := range []refmodel.Rules{86, 87, 88} {
		t.Run(fmt.Sprint(rules), func(t *testing.T) {
			count := 150
			if os.Getenv("TROUPE_REPLAY") == "all" {
				count = 2000
			}
			playRules(t, rules, count)
		})
	}
}

func playRules(t *testing.T, rules refmodel.Rules, count int) {
	v, err := vm.New(vm.Options{Alarm: func(err error) { panic(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	ends := map[string]int{}
	promised := map[string]int{}
	var ran, again, receipts, fresh, delayed int
	for seed := range uint64(count) {
		s := refmodel.Generate(seed, rules)
		text := s.String()
		n := ruledNet(t, s.World, v)
		n.height = s.Height - 1
		n.give(s.Incoming...)
		n.height++
		in := n.input(0, s.Txs)
		n.height--
		results := n.step(s.Txs...)
		in.Par, in.window = goPar, windowSizes{most: 1 + int(seed)%20, least: 1}
		ahead, err := Apply(in)
		if err != nil {
			t.Fatal(err)
		}
		sameResult(t, ahead, results[0])
		ran, again = ran+ahead.Stats.RanInParallel, again+ahead.Stats.RanAgain
		// If the chunk has no room for all receipts, serial and parallel execution leave the same state.
		in.GasLimit, in.Par = primitives.Gas(1+seed%40)*1_000_000_000_000, nil
		short, err := Apply(in)
		if err != nil {
			t.Fatal(err)
		}
		in.Par = goPar
		if ahead, err = Apply(in); err != nil {
			t.Fatal(err)
		}
		sameResult(t, ahead, short)
		delayed += short.Stats.Postponed
		// Receipts that a chunk sends arrive at the same shard in the next chunk, until none are left.
		for chunk, want := 0, s.Play(); ; want = want.Next(s.LaterTxs(chunk)) {
			for i, e := range want.Refusals {
				sameRefusal(t, i, &results[0].Outcomes[i], e)
				switch {
				case e == nil:
				case e.Actions != nil:
					ends[e.Actions.Tag.String()]++
				default:
					ends[e.Tag.String()]++
				}
			}
			sameAsRuled(t, results[0].Outcomes[len(want.Refusals):], results[0].Outgoing, want)
			for _, d := range refmodel.Differences(n.rows(), want.Rows()) {
				t.Errorf("height %d, state: %s", n.height, d)
			}
			receipts, fresh = receipts+len(want.Outcomes), fresh+want.Fresh
			for what, n := range want.Promised {
				promised[what] += n
			}
			for i := range want.Outcomes {
				ends[want.Outcomes[i].Kind()]++
				if e := want.Outcomes[i].Err; e != nil && e.Kind.Receipt != nil {
					ends["made "+e.Kind.Receipt.Actions.Tag.String()]++
				}
			}
			if len(want.Leaving) == 0 && chunk >= len(s.Later) || t.Failed() {
				break
			}
			chunk++
			results = n.step(s.LaterTxs(chunk)...)
		}
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, text)
		}
	}
	t.Logf("%d receipts, %d calls of code of their own chunk, %d adopted, %d ran again, %d delayed; promised state inits %v; %v", receipts, fresh, ran, again,
		delayed, promised, ends)
	if again == 0 || ran == 0 || delayed == 0 || fresh < count/10 || len(ends) < 30 {
		t.Errorf("%d adopted, %d ran again, %d calls of code of their own chunk, %d ends: the chunks reach too little", ran, again, fresh, len(ends))
	}
	if promised["deterministic"] == 0 {
		t.Error("no contract promises a deterministic account")
	}
	for _, what := range []string{"universal", "derived", "malformed", "wrong receiver"} {
		if (promised[what] > 0) != (rules >= 88) {
			t.Errorf("%d promised state inits are %s", promised[what], what)
		}
	}
}

// sameRefusal compares the outcome of transaction i with the model's error for it.
func sameRefusal(t *testing.T, i int, got *primitives.OutcomeWithID, e *primitives.InvalidTxError) {
	t.Helper()
	want := "a receipt"
	if e != nil {
		failure := primitives.TxExecutionError{InvalidTx: e}
		want = string(failure.AppendJSON(nil))
	}
	text := "a receipt"
	if got.Status.Kind != primitives.StatusSuccessReceiptID {
		text = statusText(&got.Status)
	}
	if text != want {
		t.Errorf("transaction %d: %s, want %s", i, text, want)
	}
}

// sameAsRuled compares outcomes of receipts and what left with the model's.
func sameAsRuled(t *testing.T, outcomes []primitives.OutcomeWithID, leaving []*primitives.Receipt, want *refmodel.Chunk) {
	t.Helper()
	if len(outcomes) != len(want.Outcomes) {
		t.Errorf("%d outcomes, want %d", len(outcomes), len(want.Outcomes))
	}
	for i := range min(len(outcomes), len(want.Outcomes)) {
		got, w := &outcomes[i], &want.Outcomes[i]
		status := primitives.ExecutionStatus{Kind: primitives.StatusSuccessValue, Value: w.Value}
		if w.Err != nil {
			e := primitives.TxExecutionError{Action: w.Err}
			status = primitives.ExecutionStatus{Kind: primitives.StatusFailure, Failure: e.AppendJSON(nil)}
		}
		if a, b := statusText(&got.Status), statusText(&status); a != b || got.ID != w.ID {
			t.Errorf("outcome %d: %s, want %s", i, a, b)
		}
		if got.TokensBurnt != w.Burnt {
			t.Errorf("outcome %d burnt %v, want %v", i, got.TokensBurnt, w.Burnt)
		}
		if a, b := fmt.Sprint(got.ReceiptIDs), fmt.Sprint(w.Made); a != b {
			t.Errorf("outcome %d made %s, want %s", i, a, b)
		}
		if !reflect.DeepEqual(got.Metadata.Contracts, w.Contracts) {
			t.Errorf("outcome %d ran over %v, want %v", i, got.Metadata.Contracts, w.Contracts)
		}
	}
	if len(leaving) != len(want.Leaving) {
		t.Errorf("%d receipts leave, want %d", len(leaving), len(want.Leaving))
	}
	for i := range min(len(leaving), len(want.Leaving)) {
		if !bytes.Equal(leaving[i].AppendBorsh(nil), want.Leaving[i].AppendBorsh(nil)) {
			t.Errorf("receipt %d that leaves is %+v, want %+v", i, leaving[i], want.Leaving[i])
		}
	}
}
