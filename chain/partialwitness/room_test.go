package partialwitness

import (
	"errors"
	"runtime"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// maxTransaction is max_transaction_size of nearcore's runtime configuration.
const maxTransaction = 1_572_864

// create returns a transaction of n actions, each of which is encoded as one byte.
func create(n int) *primitives.SignedTransaction {
	t := primitives.Transaction{SignerID: "aa", ReceiverID: "bb", PublicKey: primitives.SecretKeyFromSeed(primitives.ED25519, "test").PublicKey()}
	t.Actions = make([]primitives.Action, n)
	for i := range t.Actions {
		t.Actions[i] = &primitives.CreateAccount{}
	}
	return primitives.NewSignedTransaction(t, primitives.ZeroED25519Signature)
}

// TestWitnessOfAnyItemsDecodes: nearcore bounds a witness only by its bytes. Witnesses that consist
// of very many small items decode: one-byte actions in transactions of maximal size or in receipts,
// state init entries, empty strings. The memory that they take is bounded relative to their bytes.
func TestWitnessOfAnyItemsDecodes(t *testing.T) {
	long := create(maxTransaction - len(create(0).AppendBorsh(nil)))
	if long.Size() != maxTransaction {
		t.Fatalf("a transaction of %d bytes", long.Size())
	}
	entries := make([]primitives.StateEntry, 150_000)
	for i := range entries {
		entries[i] = primitives.StateEntry{Key: []byte{byte(i >> 16), byte(i >> 8), byte(i)}}
	}
	receipt := func(n int) *primitives.Receipt {
		return &primitives.Receipt{PredecessorID: "aa", ReceiverID: "bb", Body: &primitives.ActionReceipt{
			SignerID: "aa", SignerPublicKey: long.PublicKey, Actions: create(n).Actions}}
	}
	for name, change := range map[string]func(w *primitives.ChunkStateWitness){
		"an action": func(w *primitives.ChunkStateWitness) { w.NewTransactions = []*primitives.SignedTransaction{create(1)} },
		"100,000 actions": func(w *primitives.ChunkStateWitness) {
			w.Transactions = []*primitives.SignedTransaction{create(100_000)}
		},
		"the longest transaction":        func(w *primitives.ChunkStateWitness) { w.NewTransactions = []*primitives.SignedTransaction{long} },
		"the longest transaction before": func(w *primitives.ChunkStateWitness) { w.Transactions = []*primitives.SignedTransaction{long} },
		"six of these": func(w *primitives.ChunkStateWitness) {
			w.Transactions = []*primitives.SignedTransaction{long, long, long}
			w.NewTransactions = w.Transactions
		},
		"state init": func(w *primitives.ChunkStateWitness) {
			x := create(0).Transaction
			x.Actions = []primitives.Action{&primitives.DeterministicStateInit{Init: primitives.StateInit{Data: entries}}}
			w.NewTransactions = []*primitives.SignedTransaction{primitives.NewSignedTransaction(x, primitives.ZeroED25519Signature)}
		},
		"strings": func(w *primitives.ChunkStateWitness) { w.Main.Base = make([][]byte, 1<<20) },
		"receipts": func(w *primitives.ChunkStateWitness) {
			w.Sources = []primitives.SourceProof{{ReceiptProof: primitives.ReceiptProof{Receipts: []*primitives.Receipt{receipt(1 << 20), receipt(1 << 20)}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			change(w)
			payload, err := Encode(w)
			if err != nil {
				t.Fatal(err)
			}
			raw := len(w.AppendBorsh(nil))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, size, memory, err := decode(unpackWitness(), payload)
			runtime.ReadMemStats(&after)
			if err != nil || size != raw {
				t.Errorf("%d bytes, packed %d: %v", raw, len(payload), err)
				return
			}
			if most := raw + borsh.RoomFor(raw); memory < raw || memory > most {
				t.Errorf("%d bytes of memory of %d", memory, raw)
			}
			if made := int(after.TotalAlloc - before.TotalAlloc); made > 2*memory+12*raw+8<<20 {
				t.Errorf("%d bytes allocated for %d, of %d", made, memory, raw)
			}
			if again := len(got.AppendBorsh(nil)); again != raw {
				t.Errorf("%d bytes when it is written again, not %d", again, raw)
			}
		})
	}
}

// TestWitnessOfMostBytesDecodes: the longest witness that nearcore decodes has MaxRaw bytes.
func TestWitnessOfMostBytesDecodes(t *testing.T) {
	t.Parallel()
	for _, more := range []int{0, 1} {
		w := sample()
		w.Main.Base = [][]byte{{}}
		w.Main.Base[0] = make([]byte, MaxRaw-len(w.AppendBorsh(nil))+more)
		_, size, err := Decode(packer().fast.EncodeAll(w.AppendBorsh(nil), nil))
		if more == 0 && (err != nil || size != MaxRaw) || more > 0 && !errors.Is(err, ErrCoding) {
			t.Errorf("%d bytes: %d, %v", MaxRaw+more, size, err)
		}
	}
}

// TestRepeatedContractsCountOnce: a response may contain a contract several times, since nearcore
// compares sets.
func TestRepeatedContractsCountOnce(t *testing.T) {
	t.Parallel()
	list := [][]byte{[]byte("a"), []byte("b")}
	for range MaxRequested {
		list = append(list, []byte("a"))
	}
	got, err := DecodeContracts(EncodeContracts(list), 2)
	if err != nil || len(got) != 2 || string(got[0]) != "a" || string(got[1]) != "b" {
		t.Errorf("%d contracts, %v", len(got), err)
	}
	if _, err := DecodeContracts(EncodeContracts(list), 1); !errors.Is(err, ErrCoding) || !errors.Is(err, borsh.ErrTooMuch) {
		t.Errorf("two contracts where one was asked for: %v", err)
	}
}

// TestWaitingWitnessesAreBoundedByMemory: witnesses that wait take at most maxWaiting bytes of
// memory; the oldest are dropped first.
func TestWaitingWitnessesAreBoundedByMemory(t *testing.T) {
	t.Parallel()
	x := newCodeNetwork(t)
	wait := func(h primitives.Height, j WitnessValidated) {
		t.Helper()
		j.Witness, j.Memory, j.Head = x.witness, maxWaiting/3, h-orphanFrom
		j.Key = primitives.ChunkKey{HeightCreated: h}
		if _, err := x.node.Step(j); err != nil {
			t.Fatal(err)
		}
	}
	wait(4, WitnessValidated{Lacks: true})
	for h := range primitives.Height(4) {
		wait(5+h, WitnessValidated{Early: true})
	}
	if o, l := x.node.orphans.order, x.node.codeWaits.order; len(o) != 2 || o[0].HeightCreated != 7 || len(l) != 1 {
		t.Errorf("%v and %v are kept", o, l)
	}
	for h := range primitives.Height(4) {
		wait(9+h, WitnessValidated{Lacks: true})
	}
	if o, l := x.node.orphans.order, x.node.codeWaits.order; len(o) != 0 || len(l) != 3 || l[2].HeightCreated != 12 {
		t.Errorf("%v and %v are kept", o, l)
	}
}
