package txstatus

import (
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// outcomeSource is a Source with named outcomes: ids are hashes of the names.
type outcomeSource struct {
	outcomes map[primitives.Hash]view.OutcomeProof
	refunds  []string
	final    []string // names of final blocks
}

func id(name string) primitives.Hash {
	if name == "" {
		return primitives.Hash{}
	}
	return primitives.HashBytes([]byte(name))
}

func (f *outcomeSource) Outcome(h primitives.Hash) (view.OutcomeProof, bool) {
	o, ok := f.outcomes[h]
	return o, ok
}

func (f *outcomeSource) IsRefund(h primitives.Hash, _ *view.OutcomeProof) bool {
	return slices.ContainsFunc(f.refunds, func(n string) bool { return id(n) == h })
}

func (f *outcomeSource) IsFinal(h primitives.Hash) bool {
	return slices.ContainsFunc(f.final, func(n string) bool { return id(n) == h })
}

// outcome is an outcome of a outcomeSource. status "v..." is a value, "f..." a failure, "?" unknown,
// otherwise the name of a SuccessReceiptId.
type outcome struct {
	name, block, status string
	sends               []string
}

func chain(final, refunds []string, os ...outcome) *outcomeSource {
	f := &outcomeSource{outcomes: map[primitives.Hash]view.OutcomeProof{}, final: final, refunds: refunds}
	for _, o := range os {
		p := view.OutcomeProof{BlockHash: id(o.block)}
		p.ID = id(o.name)
		for _, s := range o.sends {
			p.ReceiptIDs = append(p.ReceiptIDs, id(s))
		}
		switch o.status[0] {
		case '?':
		case 'v':
			p.Status = primitives.ExecutionStatus{Kind: primitives.StatusSuccessValue, Value: []byte(o.status[1:])}
		case 'f':
			p.Status = primitives.ExecutionStatus{Kind: primitives.StatusFailure, Failure: []byte(o.status[1:])}
		default:
			p.Status = primitives.ExecutionStatus{Kind: primitives.StatusSuccessReceiptID, ReceiptID: id(o.status)}
		}
		f.outcomes[p.ID] = p
	}
	return f
}

func TestLevelAndStatusOfTransfer(t *testing.T) {
	t.Parallel()
	// A simple transfer: the transaction in block 1 sends receipt r; r runs in block 2 and sends
	// the refund s, which runs in block 3.
	tx := outcome{"tx", "1", "r", []string{"r"}}
	r := outcome{"r", "2", "vok", []string{"s"}}
	s := outcome{"s", "3", "v", nil}
	refund := []string{"s"}
	for _, c := range []struct {
		name   string
		chain  *outcomeSource
		level  view.ExecutionLevel
		status view.FinalStatusKind
		count  int
	}{
		{"nothing known", chain(nil, nil), view.LevelNone, view.FinalNotStarted, 0},
		{"pending", chain(nil, nil, outcome{"tx", "1", "?", nil}), view.LevelNone, view.FinalNotStarted, 1},
		{"included", chain(nil, refund, tx), view.LevelIncluded, view.FinalStarted, 1},
		{"executed optimistically without its refund", chain(nil, refund, tx, r), view.LevelExecutedOptimistic,
			view.FinalSuccessValue, 2},
		{"the last receipt is no refund", chain(nil, nil, tx, r), view.LevelIncluded, view.FinalSuccessValue, 2},
		{"included in a final block", chain([]string{"1"}, refund, tx), view.LevelIncludedFinal, view.FinalStarted, 1},
		{"executed, refund missing", chain([]string{"1"}, refund, tx, r), view.LevelExecuted, view.FinalSuccessValue, 2},
		{"executed, nothing else final", chain([]string{"1"}, refund, tx, r, s), view.LevelExecuted,
			view.FinalSuccessValue, 3},
		{"executed, refund's block not final", chain([]string{"1", "2"}, refund, tx, r, s), view.LevelExecuted,
			view.FinalSuccessValue, 3},
		{"final", chain([]string{"1", "2", "3"}, refund, tx, r, s), view.LevelFinal, view.FinalSuccessValue, 3},
		{"failed in the chunk", chain([]string{"1"}, nil, outcome{"tx", "1", "f{}", nil}), view.LevelFinal,
			view.FinalFailure, 1},
		{"a receipt that the transaction itself sends is never taken for a refund", chain(nil, []string{"r"}, tx),
			view.LevelIncluded, view.FinalStarted, 1},
		{"a refund that is not last is waited for", chain(nil, refund, tx, outcome{"r", "2", "vok", []string{"s", "q"}},
			outcome{"q", "3", "v", nil}),
			view.LevelIncluded, view.FinalSuccessValue, 3},
		{"the value of a promise", chain(nil, nil, tx, outcome{"r", "2", "q", []string{"q"}},
			outcome{"q", "3", "vdeep", nil}),
			view.LevelExecutedOptimistic, view.FinalSuccessValue, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := Outcomes(id("tx"), c.chain)
			if got := Level(all, c.chain); got != c.level {
				t.Errorf("level = %v, want %v", got, c.level)
			}
			if got := Status(all); got.Kind != c.status {
				t.Errorf("status = %v, want %v", got.Kind, c.status)
			}
			if len(all) != c.count {
				t.Errorf("%d outcomes, want %d", len(all), c.count)
			}
		})
	}
}

func TestOutcomesAreInDepthFirstOrder(t *testing.T) {
	t.Parallel()
	f := chain(nil, nil, outcome{"tx", "1", "a", []string{"a"}}, outcome{"a", "2", "b", []string{"b", "c"}},
		outcome{"b", "3", "v", []string{"d"}}, outcome{"c", "3", "v", nil}, outcome{"d", "4", "v", nil})
	var got []primitives.Hash
	for _, o := range Outcomes(id("tx"), f) {
		got = append(got, o.ID)
	}
	want := []primitives.Hash{id("tx"), id("a"), id("b"), id("d"), id("c")}
	if !slices.Equal(got, want) {
		t.Errorf("order = %v, want %v", got, want)
	}
}

func TestMeetsFollowsOrderOfLevels(t *testing.T) {
	t.Parallel()
	// The columns are the levels reached, in order, the rows the levels wanted; x: satisfied.
	for wanted, row := range []string{"xxxxxx", "-xxxxx", "--x-xx", "---xxx", "----xx", "-----x"} {
		for level := range row {
			got := Meets(view.ExecutionLevel(level), view.ExecutionLevel(wanted))
			if want := row[level] == 'x'; got != want {
				t.Errorf("Meets(%v, %v) = %v, want %v", view.ExecutionLevel(level), view.ExecutionLevel(wanted), got, want)
			}
		}
	}
}

func TestLookWithoutOutcomeIsIncluded(t *testing.T) {
	t.Parallel()
	got := Look(primitives.NewSignedTransaction(primitives.Transaction{SignerID: "a.near", ReceiverID: "b.near",
		PublicKey: primitives.ZeroED25519Key}, primitives.ZeroED25519Signature), chain(nil, nil))
	if got.Level != view.LevelIncluded || got.Transaction != nil {
		t.Errorf("Look = %+v, want INCLUDED alone", got)
	}
}
