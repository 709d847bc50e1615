package wire

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// borshBuilder writes borsh by hand.
type borshBuilder []byte

func (p *borshBuilder) raw(b ...byte) *borshBuilder { *p = append(*p, b...); return p }
func (p *borshBuilder) zeros(n int) *borshBuilder   { return p.raw(make([]byte, n)...) }
func (p *borshBuilder) num(n uint32) *borshBuilder  { *p = borsh.AppendUint32(*p, n); return p }
func (p *borshBuilder) str(s string) *borshBuilder  { *p = borsh.AppendString(*p, s); return p }
func (p *borshBuilder) key() *borshBuilder          { *p = keyA.PublicKey().AppendBorsh(*p); return p }
func (p *borshBuilder) sig() *borshBuilder          { *p = keyA.Sign(nil).AppendBorsh(*p); return p }

// outcomeOf returns a FinalExecutionOutcomeView with a status, actions, and the outcome of one
// receipt.
func outcomeOf(status []byte, actions [][]byte, receipt []byte) []byte {
	p := new(borshBuilder)
	p.raw(status...).str("alice.near").key().zeros(8).str("bob.near").num(uint32(len(actions)))
	for _, a := range actions {
		p.raw(a...)
	}
	p.zeros(8).sig().zeros(32).raw(1, 7, 0).raw(1, 1)               // nonce_index 7, nonce_mode strict
	p.num(0).zeros(64)                                              // proof, block, id
	p.num(0).num(1).zeros(32).zeros(8 + 16).str("alice.near")       // logs, receipts, gas, tokens, executor
	p.raw(3).zeros(32).num(1).raw(0, 0)                             // SuccessReceiptId; metadata 1
	p.num(1)                                                        // outcomes of receipts
	p.num(1).zeros(32).raw(1).zeros(64)                             // a proof of one item
	p.num(2).str("a").str("é").num(0).zeros(8 + 16).str("bob.near") // logs
	p.raw(receipt...)
	p.num(4).raw(1).num(1).str("ACTION_COST").str("TRANSFER").zeros(8) // metadata 4 with a profile
	p.raw(1).num(3).raw(0).raw(1, 0).zeros(32).raw(1, 2).str("c.near") // and contracts
	return *p
}

func sampleOutcome() []byte { return outcomeOf([]byte{3, 1, 0, 0, 0, 9}, nil, []byte{0}) }

func bytesOf(f func(p *borshBuilder)) []byte {
	p := new(borshBuilder)
	f(p)
	return *p
}

// actionViews returns one of each kind, by tag.
func actionViews() [][]byte {
	inner := primitives.AppendActions(nil, []primitives.Action{&primitives.Transfer{}})
	return [][]byte{
		{0},
		bytesOf(func(p *borshBuilder) { p.raw(1).num(32).zeros(32) }),
		bytesOf(func(p *borshBuilder) { p.raw(2).str("m").num(2).raw(1, 2).zeros(8 + 16) }),
		bytesOf(func(p *borshBuilder) { p.raw(3).zeros(16) }),
		bytesOf(func(p *borshBuilder) { p.raw(4).zeros(16).key() }),
		bytesOf(func(p *borshBuilder) {
			p.raw(5).key().zeros(8).raw(2).zeros(16 + 2).raw(1).zeros(16).str("not an account!").num(1).str("m")
		}),
		bytesOf(func(p *borshBuilder) { p.raw(6).key() }),
		bytesOf(func(p *borshBuilder) { p.raw(7).str("b.near") }),
		bytesOf(func(p *borshBuilder) { p.raw(8).str("a.near").str("b.near").raw(inner...).zeros(16).key().sig() }),
		bytesOf(func(p *borshBuilder) { p.raw(9).num(32).zeros(32) }),
		bytesOf(func(p *borshBuilder) { p.raw(10).num(0) }),
		bytesOf(func(p *borshBuilder) { p.raw(11).zeros(32) }),
		bytesOf(func(p *borshBuilder) { p.raw(12).str("c.near") }),
		bytesOf(func(p *borshBuilder) { p.raw(13, 1).str("c.near").num(2).str("a").str("1").str("b").str("2").zeros(16) }),
		bytesOf(func(p *borshBuilder) { p.raw(14).key().zeros(16) }),
		bytesOf(func(p *borshBuilder) { p.raw(15).key().zeros(16) }),
		bytesOf(func(p *borshBuilder) {
			p.raw(16, 0).str("a.near").str("b.near").raw(inner...).raw(1).zeros(8 + 2).zeros(8).key().sig()
		}),
	}
}

// failures returns errors at the leaves of every error enum, with fields as errors.rs declares
// them.
func failures() map[string][]byte {
	action := func(b ...byte) []byte { return append([]byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 0}, b...) }
	invalid := func(b ...byte) []byte { return append([]byte{1}, b...) }
	size := func(n int, b ...byte) []byte { return append(b, make([]byte, n)...) }
	withKey := func(b ...byte) []byte { return bytesOf(func(p *borshBuilder) { p.raw(b...).str("a.near").key() }) }
	str := func(s string, b ...byte) []byte { return borsh.AppendString(b, s) }
	return map[string][]byte{
		"no action's":             {0, 0, 16},
		"registrar":               action(str("c.near", str("b.near", str("a.near", 2)...)...)...),
		"stake":                   action(size(48, str("a.near", 10)...)...),
		"a call's execution":      action(str("Smart contract panicked", 12, 7)...),
		"a call's preparation":    action(12, 0, 1, 18),
		"a call's method":         action(12, 2, 2),
		"a call's trap":           action(12, 3, 8),
		"a call's host":           action(str("bad point", 12, 5, 33)...),
		"a call's lengths":        action(size(16, 12, 5, 28)...),
		"a receipt's":             action(str("x", 13, 8)...),
		"a receipt's actions":     action(size(16, 13, 6, 20)...),
		"a delegate's key":        action(size(32, withKey(19, 4)...)...),
		"a contract":              action(str("c.near", 22, 1)...),
		"a gas key's balance":     action(size(32, withKey(24)...)...),
		"a gas key without a key": action(size(16+0, append(str("a.near", 25), 0)...)...),
		"an index":                action(26, 0, 0, 1, 0),
		"a key":                   invalid(0, 7),
		"a congested shard":       invalid(size(0, append([]byte{16, 1, 0, 0, 0}, borsh.AppendUint64(nil, math.Float64bits(0.5))...)...)...),
		"a missing value":         invalid(size(32, 15, 1, 3)...),
		"a feature":               invalid(size(4, str("F", 12, 13)...)...),
		"a deposit":               invalid(append(size(32, str("a.near", 20)...), 1)...),
	}
}

// TestEachOutcomeFormRoundTrips: each form of an outcome decodes to its end and encodes to the same
// bytes; shorter or longer input fails.
func TestEachOutcomeFormRoundTrips(t *testing.T) {
	t.Parallel()
	try := func(name string, in []byte) {
		t.Helper()
		m := NewRouted(keyA, RouteBack(primitives.Hash{1}), &TxStatusResponse{in}, 0)
		back, err := Decode(Append(nil, m))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		r := back.(*Routed)
		if got := r.Body.(*TxStatusResponse).Outcome; !bytes.Equal(got, in) || !r.Verify() {
			t.Errorf("%s: %x becomes %x", name, in, got)
		}
		for n := range in {
			var s TxStatusResponse
			if borsh.Unmarshal(in[:n], &s) == nil {
				t.Errorf("%s: %d of %d bytes are taken", name, n, len(in))
				return
			}
		}
		var s TxStatusResponse
		if borsh.Unmarshal(append(slices.Clone(in), 0), &s) == nil {
			t.Errorf("%s: one byte more is taken", name)
		}
	}
	try("a success", sampleOutcome())
	try("all actions", outcomeOf([]byte{0}, actionViews(), []byte{2, 0, 0, 0, 0}))
	for name, f := range failures() {
		try(name, outcomeOf(append([]byte{2}, f...), nil, append([]byte{1}, f...)))
	}
}

// TestInvalidOutcomeIsRefused: input that neard refuses.
func TestInvalidOutcomeIsRefused(t *testing.T) {
	t.Parallel()
	failed := func(b ...byte) []byte { return outcomeOf(append([]byte{2}, b...), nil, []byte{0}) }
	nan := borsh.AppendUint64([]byte{1, 16, 0, 0, 0, 0}, math.Float64bits(math.NaN()))
	for name, in := range map[string][]byte{
		"nothing": nil, "a status": {4}, "a failure": failed(2), "an action's error": failed(0, 0, 31), "a transaction's": failed(1, 21), "NaN": failed(nan...),
		"a trap": failed(0, 0, 12, 3, 9), "a preparation": failed(0, 0, 12, 0, 1, 20), "a host error": failed(0, 0, 12, 5, 35), "an option": failed(0, 2),
		"an action":          outcomeOf([]byte{0}, [][]byte{{18}}, []byte{0}),
		"a beneficiary":      outcomeOf([]byte{0}, [][]byte{borsh.AppendString([]byte{7}, "NOT AN ACCOUNT")}, []byte{0}),
		"a method":           outcomeOf([]byte{0}, [][]byte{append(borsh.AppendBytes([]byte{2}, []byte{0xff}), make([]byte, 28)...)}, []byte{0}),
		"a receipt's status": outcomeOf([]byte{0}, nil, []byte{4}),
		"a nested delegate":  outcomeOf([]byte{0}, [][]byte{bytesOf(func(p *borshBuilder) { p.raw(8).str("a.near").str("b.near").num(1).raw(actionViews()[8]...) })}, []byte{0}),
	} {
		var s TxStatusResponse
		if borsh.Unmarshal(in, &s) == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// TestOutcomeMapEntriesAreSorted: map entries arrive in any order. The signature covers neard's
// encoding, sorted by key, and so does the relayed message.
func TestOutcomeMapEntriesAreSorted(t *testing.T) {
	t.Parallel()
	init := func(list ...string) []byte {
		return outcomeOf([]byte{0}, [][]byte{bytesOf(func(p *borshBuilder) {
			p.raw(13, 0).zeros(32).num(uint32(len(list) / 2))
			for _, s := range list {
				p.str(s)
			}
			p.zeros(16)
		})}, []byte{0})
	}
	want := NewRouted(keyA, ToPeer(keyB.PublicKey()), &TxStatusResponse{init("a", "1", "b", "2")}, 0)
	for _, in := range [][]byte{init("b", "2", "a", "1"), init("a", "9", "b", "2", "a", "1")} {
		as := NewRouted(keyA, ToPeer(keyB.PublicKey()), &TxStatusResponse{in}, 0)
		if wrong, err := Decode(Append(nil, as)); err != nil || wrong.(*Routed).Verify() {
			t.Errorf("a signature over entries out of order holds: %v", err)
		}
		as.Signature = want.Signature
		back, err := Decode(Append(nil, as))
		if err != nil {
			t.Fatal(err)
		}
		if m := back.(*Routed); !m.Verify() || m.Hash() != want.Hash() || !bytes.Equal(Append(nil, m), Append(nil, want)) {
			t.Errorf("%x is not as neard reads it", in)
		}
	}
}
