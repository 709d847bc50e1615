package partialwitness

import (
	"maps"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// measuredOf returns the measured values of shard 0.
func measuredOf(t *testing.T, out Out) map[Quantity]int64 {
	t.Helper()
	got := map[Quantity]int64{}
	for _, m := range out.Measured {
		if _, twice := got[m.What]; twice || m.Shard != 0 {
			t.Errorf("%+v is measured twice, or of another shard", m)
		}
		got[m.What] = m.Value
	}
	return got
}

// TestReceivedWitnessIsMeasured: the times of a witness that needs code are those of the clock: from
// the first message to the last, from the request for code, and from the last part that was needed.
// The size of what is collected grows with each part and is 0 at the end.
func TestReceivedWitnessIsMeasured(t *testing.T) {
	t.Parallel()
	x := newCodeNetwork(t)
	now, step := int64(0), int64(0)
	x.node.Clock = func() int64 { now += step; return now }
	payload, err := Encode(x.witness)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := Parts(x.witness.Key(), nil, payload, 4, secret(x.maker))
	if err != nil {
		t.Fatal(err)
	}
	code := []byte("called code")
	now = 100
	if asked, _ := x.tell(false, code); len(asked) != 1 {
		t.Fatalf("%d contracts are requested", len(asked))
	}
	size := int64(len(parts[0].Part))
	deliver := func(at int64, ord int) map[Quantity]int64 {
		t.Helper()
		now = at
		out, err := x.node.Step(Part{parts[ord], true})
		if err != nil || len(out.Work) > 0 {
			t.Fatalf("part %d: %v, %d jobs", ord, err, len(out.Work))
		}
		return measuredOf(t, out)
	}
	if got, want := deliver(200, 1), (map[Quantity]int64{CacheSize: size}); !maps.Equal(got, want) {
		t.Errorf("after the first part %v, want %v", got, want)
	}
	if got, want := deliver(250, 2), (map[Quantity]int64{CacheSize: 2 * size, CodeRequested: 1}); !maps.Equal(got, want) {
		t.Errorf("after the last part %v, want %v", got, want)
	}
	now = 400
	r := &primitives.ContractCodeResponse{Key: x.witness.Key(), Responder: x.maker, Compressed: EncodeContracts([][]byte{code})}
	r.Signature = secret(x.maker).Sign(r.SignedBytes())
	worked := func(out Out, err error) Out {
		t.Helper()
		if err != nil || len(out.Work) != 1 {
			t.Fatalf("%v, %d jobs", err, len(out.Work))
		}
		out.Work[0].Run()
		out, err = x.node.Step(Worked{out.Work[0]})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := worked(x.node.Step(Code{r}))
	if got, want := measuredOf(t, out), (map[Quantity]int64{CodeTime: 300, CodeDelay: 150, LastPartTime: 300, CacheSize: 0}); !maps.Equal(got, want) {
		t.Errorf("after the code %v, want %v", got, want)
	}
	step = 7
	if got, want := measuredOf(t, worked(out, nil)), (map[Quantity]int64{DecodeTime: 7}); !maps.Equal(got, want) {
		t.Errorf("after decoding %v, want %v", got, want)
	}
}

// TestSentWitnessIsMeasured: sizes of a witness and its fields, and the times of encoding it and of
// cutting it into parts.
func TestSentWitnessIsMeasured(t *testing.T) {
	t.Parallel()
	x := newNetwork(t, 1, 4, 1, 0)
	x.head = 3
	w := sample()
	w.Header.HeightCreated = 4
	node, now := x.nodes[account(0)], int64(0)
	node.Clock = func() int64 { now += 5; return now }
	payload, err := Encode(w)
	if err != nil {
		t.Fatal(err)
	}
	out, err := node.Step(Made{Witness: w})
	if err != nil {
		t.Fatal(err)
	}
	sources := borsh.AppendSlice(nil, w.Sources, func(b []byte, s *primitives.SourceProof) []byte {
		return s.ReceiptProof.AppendBorsh(append(b, s.Chunk[:]...))
	})
	want := map[Quantity]int64{EncodeTime: 5, CutTime: 5, RawSize: int64(len(w.AppendBorsh(nil))), EncodedSize: int64(len(payload)),
		TransitionSize: int64(len(w.Main.AppendBorsh(nil))), SourcesSize: int64(len(sources))}
	if got := measuredOf(t, out); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestCodeAnswerAndDeploysAreMeasured: the time to answer a request for code, and the time between
// the parts of deployed code.
func TestCodeAnswerAndDeploysAreMeasured(t *testing.T) {
	t.Parallel()
	x := newRequestNetwork(t)
	now := int64(0)
	x.nodes[account(0)].Clock = func() int64 { now += 5; return now }
	out, err := x.ask(1, 4)
	if got := measuredOf(t, out); err != nil || !maps.Equal(got, map[Quantity]int64{AnswerTime: 5}) {
		t.Errorf("%v, %v", got, err)
	}
	key := primitives.ChunkKey{EpochID: primitives.Hash{1}, HeightCreated: 4}
	parts, err := DeployParts(key, nil, [][]byte{x.code}, 5, secret(account(0)))
	if err != nil {
		t.Fatal(err)
	}
	node, at, done := x.nodes[account(3)], int64(0), false
	node.Clock = func() int64 { return at }
	for i, p := range parts {
		at = int64(100 * (i + 1))
		out, err := node.Step(Deploys{p})
		if done = len(out.Work) > 0; err != nil {
			t.Fatal(err)
		}
		if !done {
			continue
		}
		if got := measuredOf(t, out); i == 0 || !maps.Equal(got, map[Quantity]int64{LastDeployTime: int64(100 * i)}) {
			t.Errorf("after %d parts %v", i+1, got)
		}
		break
	}
	if !done {
		t.Error("the deployed code is never complete")
	}
}
