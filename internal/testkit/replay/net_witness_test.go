package replay

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// validWitness is an accepted witness with the code that it calls.
type validWitness struct {
	w    *primitives.ChunkStateWitness
	code [][]byte
}

// TestWitnessMessagesEqualNeards: for every chunk of a recorded network of neards, an engine that
// follows the chain builds the same bytes as neard: the witness, its parts, their signatures, the
// endorsements, and the list of contracts. An engine without state validates neard's witness from
// the blocks and the code alone. A witness with a changed bit is refused.
func TestWitnessMessagesEqualNeards(t *testing.T) {
	n := readNetwork(t, netPath())
	whole, stateless := n.open(t, engine.Options{Par: par, ProofBytes: keptProofs}), n.open(t, engine.Options{Tracks: none, MainResults: -1})
	var all []validWitness
	implicit, contracts, asked, parts, endorsements, deploys := 0, 0, 0, 0, 0, 0
	for _, b := range n.blocks {
		if b.Header.PrevHash.IsZero() {
			continue
		}
		bodies := n.bodies(b)
		for i, c := range bodies {
			h := b.Body.Chunks[i]
			if h.HeightIncluded != b.Header.Height {
				continue
			}
			key := primitives.ChunkKey{ShardID: h.ShardID, EpochID: b.Header.EpochID, HeightCreated: h.HeightCreated}
			parent, err := whole.Block(b.Header.PrevHash)
			if err != nil {
				t.Fatal(err)
			}
			validators, err := whole.ChunkValidators(parent, h.ShardID)
			if err != nil {
				t.Fatal(err)
			}
			payload := n.payload(t, key, len(validators))
			if payload == nil {
				continue
			}
			w, _, err := partialwitness.Decode(payload)
			if err != nil {
				t.Fatalf("%+v: error %v", key, err)
			}
			made, err := whole.Witness(c)
			if err != nil {
				t.Fatalf("%+v: error %v", key, err)
			}
			if got, want := made.AppendBorsh(nil), unpacked(t, payload); !bytes.Equal(got, want) {
				t.Fatalf("%+v: another witness than neard's:\n%+v\n%+v", key, made.ChunkStateWitness, w)
			}
			if a := n.accesses[key]; a != nil {
				if a.Transition != made.Transition || !sameHashes(a.Contracts, made.Accesses) {
					t.Errorf("%+v: got contracts %v of %+v, neard sent %v of %+v", key, made.Accesses, made.Transition, a.Contracts, a.Transition)
				}
				contracts += len(a.Contracts)
			}
			code := codesOf(t, whole, made)
			if err := stateless.Witnesses().CheckWitness(w, code); err != nil {
				t.Fatalf("%+v: neard's witness is refused: %v", key, err)
			}
			if err := stateless.Witnesses().CheckWitness(w, nil); len(code) > 0 && err != nil { // else its own receipts bring it
				if !errors.Is(err, engine.ErrNoCode) || engine.VerdictOf(err) != engine.VerdictWaiting {
					t.Errorf("%+v: without its code: %v, want %v", key, err, engine.ErrNoCode)
				}
				asked++
			}
			if is, err := stateless.Witnesses().CheckHeld(w, nil); is || err != nil {
				t.Errorf("%+v: judged by a state that is not held: %v, %v", key, is, err)
			}
			if is, err := whole.Witnesses().CheckHeld(w, nil); !is || err != nil {
				t.Errorf("%+v: judged by the state: %v, %v", key, is, err)
			}
			parts += n.sameParts(t, key, payload, len(validators), whole, b)
			for _, want := range n.endorsements[key] {
				by := want.Metadata.AccountID
				if got := partialwitness.Endorse(key, c.Hash, by, n.keys[by]); !bytes.Equal(got.AppendBorsh(nil), want.AppendBorsh(nil)) {
					t.Errorf("%+v: another endorsement of %s", key, by)
				}
				endorsements++
			}
			deploys += n.sameDeploys(t, key, made)
			n.tracked(t, stateless, key, w, len(all))
			all, implicit = append(all, validWitness{w, code}), implicit+len(w.Implicit)
		}
		if _, err := whole.Process(b, bodies, false); err != nil {
			t.Fatalf("block %d: %v", b.Header.Height, err)
		}
		if _, err := stateless.Process(b, nil, false); err != nil {
			t.Fatalf("block %d without state: %v", b.Header.Height, err)
		}
	}
	t.Logf("%d blocks, %d witnesses in %d parts, %d implicit transitions, %d contracts, %d asked for, %d endorsements, %d deploys",
		len(n.blocks), len(all), parts, implicit, contracts, asked, endorsements, deploys)
	if len(all) < 100 || implicit == 0 || contracts == 0 || asked == 0 || endorsements < 300 || deploys == 0 {
		t.Error("that is few")
	}
	testBits(t, stateless, all)
}

// unpacked is a witness as neard wrote it.
func unpacked(t testing.TB, payload []byte) []byte {
	t.Helper()
	w, size, err := partialwitness.Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	r := borsh.NewReader(w.AppendBorsh(nil))
	if again := new(primitives.ChunkStateWitness); size != r.Remaining() {
		t.Fatalf("%d bytes became %d: %+v", size, r.Remaining(), again)
	}
	return r.Rest()
}

// sameParts splits a compressed witness and signs its parts as the producer did.
func (n *network) sameParts(t testing.TB, key primitives.ChunkKey, payload []byte, validators int, e *engine.Engine, b *primitives.Block) int {
	t.Helper()
	producer, err := e.ChunkProducer(b.Header.PrevHash, key.ShardID)
	if err != nil {
		t.Fatal(err)
	}
	made, err := partialwitness.Parts(key, nil, payload, validators, n.keys[producer.AccountID])
	if err != nil {
		t.Fatal(err)
	}
	for ord, want := range n.parts[key] {
		if !bytes.Equal(made[ord].AppendBorsh(nil), want.AppendBorsh(nil)) {
			t.Errorf("%+v: another part %d", key, ord)
		}
	}
	return len(n.parts[key])
}

// tracked passes the recorded parts to the tracker of one of the chunk's validators, which endorses
// the chunk from the chain alone.
func (n *network) tracked(t testing.TB, e *engine.Engine, key primitives.ChunkKey, w *primitives.ChunkStateWitness, turn int) {
	t.Helper()
	v := e.Validation()
	list, err := v.Validators(key)
	if err != nil {
		t.Fatal(err)
	}
	producer, err := v.Producer(key)
	if err != nil {
		t.Fatal(err)
	}
	me := list[turn%len(list)].AccountID
	tracker := partialwitness.NewTracker(partialwitness.Validator{Account: me, Key: n.keys[me]}, v, primitives.Signature.Verify)
	var out partialwitness.Out
	for ord := range uint64(len(list)) {
		p := n.parts[key][ord]
		if p == nil || len(out.Work) > 0 {
			continue
		}
		if out, err = tracker.Step(partialwitness.Part{Part: p, Forward: true}); err != nil {
			t.Fatalf("%+v, part %d at %s: %v", key, ord, me, err)
		}
	}
	if len(out.Work) != 1 {
		t.Fatalf("%+v at %s: %d witnesses whole", key, me, len(out.Work))
	}
	out.Work[0].Run()
	if out, err = tracker.Step(partialwitness.Worked{Work: out.Work[0]}); err != nil {
		t.Fatal(err)
	}
	if len(out.Validate) != 1 || !bytes.Equal(out.Validate[0].Witness.AppendBorsh(nil), w.AppendBorsh(nil)) ||
		(len(out.Send) == 1) != (me != producer.AccountID) {
		t.Fatalf("%+v at %s: %d to be judged, %d sent", key, me, len(out.Validate), len(out.Send))
	}
	if out, err = tracker.Step(partialwitness.WitnessValidated{PendingWitness: out.Validate[0],
		Good: true}); err != nil || len(out.Send) != 1 {
		t.Fatalf("%+v at %s: %v", key, me, err)
	}
	for _, to := range n.endorsedTo[key][me] {
		if !slices.Contains(out.Send[0].To, to) {
			t.Errorf("%+v: neard's %s endorses to %s, not only to %v", key, me, to, out.Send[0].To)
		}
	}
	votes := partialwitness.NewEndorsements(v, primitives.Signature.Verify)
	if err := votes.Add(out.Send[0].Body.(*primitives.ChunkEndorsement)); err != nil {
		t.Error(err)
	}
	said := map[primitives.AccountID]bool{me: true}
	for _, x := range n.endorsements[key] {
		said[x.Metadata.AccountID] = true
		if err := votes.Add(x); err != nil && !errors.Is(err, partialwitness.ErrKnown) {
			t.Errorf("%+v: the endorsement of %s: %v", key, x.Metadata.AccountID, err)
		}
	}
	if sigs, enough, err := votes.Of(key, w.Header.ChunkHash()); err != nil || len(said) == len(list) && (!enough || slices.Contains(sigs, "")) {
		t.Errorf("%+v: %d endorsements do not suffice: %v", key, len(said), err)
	}
	for _, far := range []primitives.Height{e.TipFinal().Height, e.Tip().Height() + partialwitness.MaxAhead + 1} {
		if other := (primitives.ChunkKey{ShardID: key.ShardID, EpochID: key.EpochID, HeightCreated: far}); v.Relevant(other) {
			t.Errorf("%+v is relevant at %d", other, key.HeightCreated)
		}
	}
}

// sameDeploys compares the code deployed in a chunk with the code that neard distributed.
func (n *network) sameDeploys(t testing.TB, key primitives.ChunkKey, made *engine.Witness) int {
	t.Helper()
	all := n.deploys[key]
	if len(all) == 0 {
		return 0
	}
	const owners = 3 // all validators but the shard's one producer
	c, err := partialwitness.DeploysCoder(owners)
	if err != nil {
		t.Fatal(err)
	}
	parts, length := make([][]byte, owners), uint64(0)
	for ord, p := range all {
		parts[ord], length = p.Part, p.EncodedLength
	}
	if len(all) < c.DataParts() {
		return 0
	}
	payload, err := c.Join(parts, length)
	if err != nil {
		t.Fatal(err)
	}
	codes, err := partialwitness.DecodeContracts(payload, partialwitness.MaxRequested)
	if err != nil {
		t.Fatal(err)
	}
	if !sameHashes(hashesOf(codes), hashesOf(made.Deploys)) {
		t.Errorf("%+v: got deployed %v, neard sent %v", key, hashesOf(made.Deploys), hashesOf(codes))
	}
	return len(codes)
}

func hashesOf(codes [][]byte) (out []primitives.Hash) {
	for _, c := range codes {
		out = append(out, primitives.HashBytes(c))
	}
	return out
}

// sameRead returns whether two witnesses differ only in parts that neard does not read: the
// header's signature and height_included, and the blocks of transitions.
func sameRead(a, b *primitives.ChunkStateWitness) bool {
	bare := func(w *primitives.ChunkStateWitness) []byte {
		x := *w
		x.Header.HeightIncluded, x.Header.Signature, x.Main.Block = 0, primitives.ZeroED25519Signature, primitives.Hash{}
		x.Implicit = slices.Clone(x.Implicit)
		for i := range x.Implicit {
			x.Implicit[i].Block = primitives.Hash{}
		}
		return x.AppendBorsh(nil)
	}
	return bytes.Equal(bare(a), bare(b))
}

// testBits changes bits of accepted witnesses: all bits of the smallest one, some of every field of
// others. Each changed witness is refused with the producer at fault, unless it now belongs to
// another block, which may still arrive, or the changed bits are never read.
func testBits(t *testing.T, e *engine.Engine, list []validWitness) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b validWitness) int { return len(a.w.AppendBorsh(nil)) - len(b.w.AppendBorsh(nil)) })
	flipped, undecoded, waiting, unread := 0, 0, 0, 0
	for i, j := range list {
		raw := j.w.AppendBorsh(nil)
		step := 1
		if some := i%(len(list)/12+1) == 0 || len(j.w.Implicit) > 0 && i%3 == 0 || len(j.code) > 0; i > 0 && !some {
			continue
		} else if i > 0 {
			step = 8*len(raw)/150 + 1
		}
		for bit := i % step; bit < 8*len(raw); bit += step {
			hurt := bytes.Clone(raw)
			hurt[bit/8] ^= 1 << (bit % 8)
			flipped++
			w := new(primitives.ChunkStateWitness)
			if borsh.Unmarshal(hurt, w) != nil {
				undecoded++
				continue
			}
			err := e.Witnesses().CheckWitness(w, j.code)
			switch verdict := engine.VerdictOf(err); {
			case sameRead(w, j.w):
				if unread++; err != nil {
					t.Errorf("witness %d: change of unread bit %d of byte %d of %d is refused: %v", i, bit%8, bit/8, len(raw), err)
				}
			case err == nil:
				t.Errorf("witness %d: bit %d of byte %d of %d changed, and it is accepted", i, bit%8, bit/8, len(raw))
			case w.Header.PrevBlockHash != j.w.Header.PrevBlockHash && errors.Is(err, engine.ErrOrphan):
				waiting++
			case verdict != engine.VerdictInvalid:
				t.Errorf("witness %d: bit %d of byte %d of %d changed: verdict %d, %v", i, bit%8, bit/8, len(raw), verdict, err)
			}
		}
	}
	t.Logf("%d bits changed: %d do not decode, %d are of unknown blocks, %d nobody reads", flipped, undecoded, waiting, unread)
	if flipped < 6000 || unread == 0 {
		t.Error("that is few")
	}
}

// sameHashes compares hashes in any order.
func sameHashes(a, b []primitives.Hash) bool {
	count := map[primitives.Hash]int{}
	for _, h := range a {
		count[h]++
	}
	for _, h := range b {
		count[h]--
	}
	for _, c := range count {
		if c != 0 {
			return false
		}
	}
	return true
}

// codesOf is the code that a witness calls.
func codesOf(t testing.TB, e *engine.Engine, w *engine.Witness) [][]byte {
	t.Helper()
	main, _, err := e.Transitions(w.Header.PrevBlockHash, w.Header.ShardID)
	if err != nil {
		t.Fatal(err)
	}
	code, err := e.Codes(main)
	if err != nil {
		t.Fatal(err)
	}
	return code
}
