package load

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/primitives"
)

// Workload is a mix of kinds of operations, in fixed percentages.
type Workload struct {
	Name  string
	parts []part
}

// part is one kind of operation and its percentage of all operations.
type part struct {
	kind  kind
	share int
}

type kind int

const (
	transfer    kind = iota // a transfer to any account
	transferFar             // a transfer to an account of another shard
	callFT                  // a transfer of a NEP-141 token
	callHog                 // a call that writes storage
	readMix                 // read requests
)

// workloads lists all workloads.
var workloads = []Workload{
	{"native", []part{{transfer, 100}}},
	{"ft", []part{{callFT, 100}}},
	{"storage-heavy", []part{{callHog, 100}}},
	{"cross-shard", []part{{transferFar, 100}}},
	{"mixed", []part{{transfer, 70}, {callFT, 20}, {callHog, 10}}},
	{"reads", []part{{readMix, 100}}},
}

// Workloads returns the names of all workloads.
func Workloads() (names []string) {
	for _, w := range workloads {
		names = append(names, w.Name)
	}
	return names
}

// WorkloadOf returns a workload by its name.
func WorkloadOf(name string) (Workload, error) {
	i := slices.IndexFunc(workloads, func(w Workload) bool { return w.Name == name })
	if i < 0 {
		return Workload{}, fmt.Errorf("load: the workload %q is unknown, must be one of %s", name, strings.Join(Workloads(), ", "))
	}
	return workloads[i], nil
}

func (w *Workload) uses(k kind) bool {
	return slices.ContainsFunc(w.parts, func(p part) bool { return p.kind == k })
}

// Reads returns whether the workload only reads.
func (w *Workload) Reads() bool { return w.uses(readMix) }

// pick returns the kind of the operation with the given number.
func (w *Workload) pick(number uint64) kind {
	at := int(scatter(number) % 100)
	for _, p := range w.parts {
		if at -= p.share; at < 0 {
			return p.kind
		}
	}
	return w.parts[0].kind
}

// scatter is the finalizer of SplitMix64 (Steele, Lea, Flood 2014). With this function instead of a
// random source, an operation depends only on its number.
func scatter(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Far returns whether the workload contains transfers between shards.
func (w *Workload) Far() bool { return w.uses(transferFar) }

// Actors are the accounts from which a transaction is built.
type Actors struct {
	Sender     int // index of the sender in the list of sending accounts
	Token, Hog primitives.AccountID
	// Near returns a different sending account of the same shard, Far one in a different shard
	Near, Far func() primitives.AccountID
}

// Act returns the receiver and the actions of the transaction with the given number.
func (w *Workload) Act(number uint64, a Actors) (to primitives.AccountID, actions []primitives.Action) {
	switch w.pick(number) {
	case transferFar:
		return a.Far(), []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(1)}}
	case callFT:
		return a.Token, []primitives.Action{&primitives.FunctionCall{Method: "ft_transfer", Gas: callGas,
			Deposit: primitives.Yocto(1), Args: fmt.Appendf(nil, `{"receiver_id":%q,"amount":"1"}`, a.Near())}}
	case callHog:
		from := a.Sender*heavyOwn + int(number%(heavyOwn/heavyCount))*heavyCount
		return a.Hog, []primitives.Action{&primitives.FunctionCall{Method: "fill", Gas: heavyGas,
			Args: fmt.Appendf(nil, `{"from":%d,"count":%d,"size":%d}`, from, heavyCount, heavySize)}}
	default:
		return a.Near(), []primitives.Action{&primitives.Transfer{Deposit: primitives.Yocto(1)}}
	}
}

// sends are the accounts that send transactions, and for each shard the accounts of the other
// shards.
type sends struct {
	ft, hog  primitives.AccountID
	all      []member
	elsewise [][]int // by shard index: indices in all of the accounts that are not in that shard
}

// make returns the receiver and actions of a transaction of member i.
func (s *sends) make(w *Workload, i int, number uint64) (to primitives.AccountID, actions []primitives.Action) {
	return w.Act(number, Actors{Sender: i, Token: s.ft, Hog: s.hog,
		Near: func() primitives.AccountID {
			return s.all[(uint64(i)+1+scatter(number^0x5bd1e995)%uint64(max(len(s.all)-1, 1)))%uint64(len(s.all))].id
		},
		Far: func() primitives.AccountID {
			far := s.elsewise[s.all[i].shard]
			return s.all[far[scatter(number)%uint64(len(far))]].id
		}})
}

// settle sets the shard of each member from the boundary accounts of the shard layout.
func (s *sends) settle(boundaries []string) error {
	counts := make([]int, len(boundaries)+1)
	for i := range s.all {
		m := &s.all[i]
		m.shard, _ = slices.BinarySearch(boundaries, string(m.id))
		if m.shard < len(boundaries) && boundaries[m.shard] == string(m.id) {
			m.shard++ // a boundary account belongs to the shard above the boundary
		}
		counts[m.shard]++
	}
	s.elsewise = make([][]int, len(counts))
	for shard := range counts {
		for i := range s.all {
			if s.all[i].shard != shard {
				s.elsewise[shard] = append(s.elsewise[shard], i)
			}
		}
		if counts[shard] > 0 && len(s.elsewise[shard]) == 0 {
			return fmt.Errorf("load: all %d accounts are in one of %d shards, so no transfer can cross shards", len(s.all), len(counts))
		}
	}
	return nil
}
