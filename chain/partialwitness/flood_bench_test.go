package partialwitness

import (
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// drawn is a world that computes the assigned validators only once, like a node.
type drawn struct {
	*world
	list  []chain.Assigned
	maker primitives.ValidatorStake
}

func (d *drawn) Validators(primitives.ChunkKey) ([]chain.Assigned, error) { return d.list, nil }
func (d *drawn) Producer(primitives.ChunkKey) (primitives.ValidatorStake, error) {
	return d.maker, nil
}

// BenchmarkWrong measures the cost of dropping an invalid message, signed or unsigned, about a
// chunk with a hundred validators.
func BenchmarkWrong(b *testing.B) {
	const validators = 100
	w := &drawn{world: &world{n: validators, makers: 1, head: 4}}
	key := primitives.ChunkKey{EpochID: primitives.Hash{1}, HeightCreated: 5}
	w.list, _ = w.world.Validators(key)
	w.maker, _ = w.world.Producer(key)
	nobody, known := secret("nobody"), primitives.NewVerifier(8192)
	part := func(salt, ord int, by primitives.SecretKey) *primitives.PartialWitness {
		p := &primitives.PartialWitness{EpochID: key.EpochID, HeightCreated: key.HeightCreated, Ord: uint64(ord), Part: make([]byte, 30_000), EncodedLength: 1_800_000}
		p.Part[0], p.Part[1], p.Part[2] = byte(salt), byte(salt>>8), byte(salt>>16)
		p.Signed(func(b []byte) { p.Signature = by.Sign(b) })
		return p
	}
	for _, c := range []struct {
		name string
		make func(salt int) any
	}{
		{"endorsement of nobody", func(salt int) any {
			return Endorse(key, primitives.HashBytes(fmt.Append(nil, salt)), account(7), nobody)
		}},
		{"second endorsement", func(salt int) any {
			return Endorse(key, primitives.HashBytes(fmt.Append(nil, salt)), account(7), secret(account(7)))
		}},
		{"part of nobody", func(salt int) any { return part(salt, 9, nobody) }},
		{"own part again", func(salt int) any { return part(salt, 9, secret(account(0))) }},
		{"another's part again", func(salt int) any { return part(salt, 8, secret(account(0))) }},
	} {
		b.Run("what="+c.name, func(b *testing.B) {
			t := NewTracker(Validator{account(9), secret(account(9))}, w, known.Verify)
			votes := NewEndorsements(w, known.Verify)
			list := make([]any, b.N)
			for i := range list {
				list[i] = c.make(i)
			}
			sent := 0
			b.ReportAllocs()
			b.ResetTimer()
			for _, m := range list {
				switch m := m.(type) {
				case *primitives.ChunkEndorsement:
					_ = votes.Add(m)
				case *primitives.PartialWitness:
					out, _ := t.Step(Part{m, false})
					for _, s := range out.Send {
						sent += len(s.To)
					}
				}
			}
			b.ReportMetric(float64(sent), "messages")
		})
	}
}
