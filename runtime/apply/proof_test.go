package apply

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
	"github.com/troupe-chain/troupe/runtime/verify"
	"github.com/troupe-chain/troupe/storage/trie"
)

// testProof adapts a state proof to state.Trie.
type testProof struct{ p *trie.Partial }

func proven(err error) error {
	if errors.Is(err, trie.ErrMissing) {
		err = fmt.Errorf("%w: %w", state.ErrMissing, err)
	}
	return err
}

func (t testProof) Root() primitives.Hash         { return t.p.Root() }
func (t testProof) NewRecording() state.Recording { return new(testRecording) }
func (t testProof) MemoryUsage() uint64           { return t.p.MemoryUsage() }

func (t testProof) CodeOf(hash primitives.Hash) []byte {
	code, _ := t.p.Find(hash)
	return code
}

func (t testProof) Get(key []byte, rec state.Recording) ([]byte, error) {
	v, err := t.p.Get(key, of(rec))
	return v, proven(err)
}

func (t testProof) Lookup(key []byte, rec state.Recording) (state.ValueRef, bool, error) {
	v, found, err := t.p.Lookup(key, of(rec))
	return state.ValueRef{Hash: v.Hash, Len: v.Len}, found, proven(err)
}

func (t testProof) Path(key []byte, rec state.Recording, path []state.Visit) ([]state.Visit, state.ValueRef, bool, error) {
	visits, v, found, err := t.p.Path(key, of(rec), nil)
	for _, x := range visits {
		path = append(path, state.Visit{Hash: x.Hash, Len: x.Len})
	}
	return path, state.ValueRef{Hash: v.Hash, Len: v.Len}, found, proven(err)
}

func (t testProof) Scan(prefix, after []byte, rec state.Recording, yield func(key, value []byte) bool) error {
	return proven(t.p.Scan(prefix, after, of(rec), yield))
}

func (t testProof) Update(changes []state.Change, rec state.Recording) (state.Trie, error) {
	list := make([]trie.Change, len(changes))
	for i := range changes {
		list[i] = trie.Change(changes[i])
	}
	p, err := t.p.Update(list, of(rec))
	return testProof{p}, proven(err)
}

func (t testProof) FindSplit(rec state.Recording) (primitives.TrieSplit, error) {
	s, err := t.p.FindSplit(of(rec))
	if errors.Is(err, trie.ErrNoSplit) {
		err = fmt.Errorf("%w: %w", state.ErrNoSplit, err)
	}
	return s, proven(err)
}

// proofOf returns the proof of a chunk: the recorded nodes and values, and the code that it called.
func proofOf(t testing.TB, in *Input, r *Result) [][]byte {
	t.Helper()
	proof := of(r.Recording).Proof()
	for _, a := range r.Accesses {
		code, err := in.Trie.Get(a.Key, nil)
		if err != nil || primitives.HashBytes(code) != a.Hash {
			t.Fatalf("code %v at %x: %v", a.Hash, a.Key, err)
		}
		proof = append(proof, code)
	}
	return proof
}

// fromProof applies a chunk again with only its proof and the called code as state, and checks that all
// results are the same.
func fromProof(t testing.TB, in *Input, want *Result) {
	t.Helper()
	if _, ok := in.Trie.(testTrie); !ok || want.Recording == nil {
		return
	}
	p, err := trie.NewPartial(proofOf(t, in, want), in.Trie.Root())
	if err != nil {
		t.Fatalf("the proof: %v", err)
	}
	again := *in
	again.Trie, again.Recording = testProof{p}, nil
	got, err := Apply(&again)
	if err != nil {
		t.Fatalf("on its proof: %v", err)
	}
	a, b := *got, *want
	for _, r := range []*Result{&a, &b} { // the statistics of parallel execution may differ
		r.Stats.RanInParallel, r.Stats.RanAgain, r.Olds, r.Accesses = 0, 0, nil, nil
	}
	if a.Trie.Root() != b.Trie.Root() || a.Trie.MemoryUsage() != b.Trie.MemoryUsage() {
		t.Errorf("on its proof: root %v, want %v", a.Trie.Root(), b.Trie.Root())
	}
	if !slices.EqualFunc(of(a.Recording).Proof(), of(b.Recording).Proof(), bytes.Equal) {
		t.Errorf("on its proof: %d strings recorded, want %d", of(a.Recording).Len(), of(b.Recording).Len())
	}
	a.Trie, b.Trie, a.Recording, b.Recording = nil, nil, nil, nil
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			t.Errorf("on its proof: %s = %+v, want %+v", x.Type().Field(i).Name, x.Field(i), y.Field(i))
		}
	}
}

// BenchmarkProven applies chunks of native transfers alternately with the whole trie and with their own
// proofs. The time includes decoding the proof.
func BenchmarkProven(b *testing.B) {
	const accounts = 1_000_000
	n := benchNet(b, accounts)
	rng := rand.New(rand.NewPCG(1, 2))
	pick := zipf(rng, accounts)
	key := testKey("bench").PublicKey()
	s := &n.shards[0]
	made := primitives.Nonce(0)
	rec, other := s.trie.NewRecording(), s.trie.NewRecording()
	var whole, proof time.Duration
	total, size, bytesOf, outcomes := 0, 500, uint64(0), 0
	for b.Loop() {
		n.height++
		in := n.input(0, nil)
		in.Transactions = make([]Transaction, size)
		for i := range in.Transactions {
			made++
			in.Transactions[i] = Transaction{primitives.NewSignedTransaction(primitives.Transaction{
				SignerID: benchName(pick()), PublicKey: key, Nonce: primitives.TransactionNonce{Nonce: 1_000_000*primitives.Nonce(n.height-1) + made%1_000_000},
				ReceiverID: benchName(pick()), Actions: []primitives.Action{transfer(primitives.Yocto(uint64(i)))},
			}, primitives.ZeroED25519Signature), true}
		}
		in.Signature, in.Recording = verify.Checked, rec
		start := time.Now()
		r, err := Apply(in)
		whole += time.Since(start)
		if err != nil {
			b.Fatal(err)
		}
		strings := proofOf(b, in, r)
		again := *in
		start = time.Now()
		p, err := trie.NewPartial(strings, in.Trie.Root())
		if err != nil {
			b.Fatal(err)
		}
		again.Trie, again.Recording = testProof{p}, other
		got, err := Apply(&again)
		proof += time.Since(start)
		if err != nil || got.Trie.Root() != r.Trie.Root() || got.RecordedSize != r.RecordedSize {
			b.Fatalf("on its proof: %v", err)
		}
		total, bytesOf, outcomes = total+size, bytesOf+r.RecordedSize, outcomes+len(r.Outcomes)
		s.trie.(testTrie).root.Release()
		s.trie, s.info, s.requests = r.Trie, r.Congestion, r.BandwidthRequests
		s.incoming[0] = r.Outgoing
		rec.Reset()
		other.Reset()
	}
	if b.N > 2 && outcomes < 2*total-2*size {
		b.Fatalf("%d outcomes of %d transfers", outcomes, total)
	}
	b.ReportMetric(float64(whole.Microseconds())/float64(total), "whole-us/transfer")
	b.ReportMetric(float64(proof.Microseconds())/float64(total), "proof-us/transfer")
	b.ReportMetric(float64(proof)/float64(whole), "proof/whole")
	b.ReportMetric(float64(bytesOf)/float64(b.N), "B/proof")
}
