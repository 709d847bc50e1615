package subscriptions

import (
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// linearChain is a chain without branches. Its methods cost nothing, so that the benchmark measures
// the reader.
type linearChain struct {
	*tree
	list []view.At
}

func (s *linearChain) Tip(view.RefKind) (view.At, error) { return s.list[len(s.list)-1], nil }

func (s *linearChain) Step(after view.At, _ view.RefKind) (out Step, err error) {
	if i := int(after.Height) + 1; i < len(s.list) {
		out.Next = s.list[i]
	}
	return out, nil
}

// BenchmarkSubscribers measures the cost of one block for each of 1,000 subscribers at the head, by
// topic, including the encoding that they share.
func BenchmarkSubscribers(b *testing.B) {
	for _, topic := range []view.Topic{view.TopicBlocks, view.TopicEvents, view.TopicTransactions} {
		b.Run(fmt.Sprintf("topic=%s", view.TopicNames[topic]), func(b *testing.B) {
			b.ReportAllocs()
			s := &linearChain{tree: newTree()}
			s.list = []view.At{s.head}
			const n = 1000
			walks := make([]*chainReader, n)
			for i := range walks {
				walks[i] = &chainReader{q: &view.Subscription{Topic: topic, Account: "somebody", Lag: 64}, chain: s, ledger: s,
					sink: &discardingSink{},
					at:   view.Cursor{At: s.head, Index: view.WholeBlock}}
				walks[i].run()
			}
			for b.Loop() {
				s.list = append(s.list, s.add(s.list[len(s.list)-1], primitives.Height(len(s.list)), nil, nil))
				for _, w := range walks {
					if v, end, err := w.run(); v != rests {
						b.Fatal(v, end, err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/subscriber")
		})
	}
}

// discardingSink is a sink that always has room and stores nothing.
type discardingSink struct{ sink }

func (*discardingSink) Offer(*view.Notice) bool { return true }
